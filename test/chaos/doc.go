// Package chaos holds tests that break a real node on purpose and then ask it for
// everything it has acknowledged. They need Linux, and root for what mounts file
// systems; elsewhere those tests skip and say so.
//
//	TestKill         kill -9 at random moments
//	TestUpload       put -r of thousands of files: node killed, command killed, command interrupted
//	TestPowerCut     a file system that stops at once and forgets what was not synced (ext4, xfs)
//	TestS3Kill       the same two through the S3 door: versions, marks, tags, copies, uploads in
//	TestS3PowerCut   parts; with one disk and several
//	TestS3Together   several write versions of the same keys; TestS3CompletedTwice several end the same uploads
//	TestS3Full       versions and parts until the disk is full
//	TestS3BadXML     what no good client sends: documents; TestS3WrongLengths, TestS3OddNames
//	TestS3SlowClients, TestS3SlowReaders, TestS3Gone, TestS3Idle: clients that are slow, leave, or do nothing
//	TestRot          damaged bytes in the files of a data directory; TestRotLive under a node that runs
//	TestFull         no space, no inodes; TestReadOnly a drive that turned read-only
//	TestSimulate     all of it on a store in this process and a drive in memory (package fault)
//	TestSimulateRot  TestRot there
//
// Every test prints its seed. The rules are the same in all of them: what was
// acknowledged is there, with the right bytes; what was not is there or not, but
// whole; what is listed is what can be read; nothing is left over.
//
// The environment says how much to do; without it the tests are short enough for
// each change:
//
//	PENSTOCK_CHAOS_SEED     seed, a new one each time if not given
//	PENSTOCK_CHAOS_KILLS    number of kills (100)
//	PENSTOCK_CHAOS_UPLOADS  number of uploads, each with a few disasters (5)
//	PENSTOCK_CHAOS_CUTS     number of power cuts on each file system (10)
//	PENSTOCK_CHAOS_S3_KILLS number of kills through the S3 door, with one disk and with three (8)
//	PENSTOCK_CHAOS_S3_CUTS  number of power cuts through the S3 door, on ext4, xfs and two disks (3)
//	PENSTOCK_CHAOS_S3_TOGETHER number of kills while several write the same keys (8)
//	PENSTOCK_CHAOS_S3_RACES number of uploads that several end (60)
//	PENSTOCK_CHAOS_S3_GONE  number of clients that leave in the middle of a write (150)
//	PENSTOCK_CHAOS_S3_IDLE  number of idle connections, as far as the system allows them (3000)
//	PENSTOCK_CHAOS_FAULTS   number of damaged places (300)
//	PENSTOCK_CHAOS_RUNS     number of simulated drives, each with five disasters (60)
//	PENSTOCK_CHAOS_RACE     if not empty, the node is built with the race detector
//	PENSTOCK_CHAOS_BINARY   the node, if it is not to be built (a machine may have no compiler)
//	PENSTOCK_CHAOS_DIR      where images and data directories lie (the system's temporary directory)
//
// found.md lists the bugs they have found, and what they accept.
//
// What an interrupted run has left (mounts, loop devices, nodes, directories) is
// removed when the next one begins.
package chaos
