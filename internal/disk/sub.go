package disk

import (
	"io"
	"path"
)

// Sub returns a directory of fsys as an FS of its own. It need not exist yet.
func Sub(fsys FS, dir string) FS { return sub{fsys: fsys, dir: dir} }

type sub struct {
	fsys FS
	dir  string
}

func (s sub) path(name string) string { return path.Join(s.dir, name) }

func (s sub) Create(name string) (File, error)    { return s.fsys.Create(s.path(name)) }
func (s sub) Open(name string) (File, error)      { return s.fsys.Open(s.path(name)) }
func (s sub) OpenWrite(name string) (File, error) { return s.fsys.OpenWrite(s.path(name)) }
func (s sub) Rename(oldname, newname string) error {
	return s.fsys.Rename(s.path(oldname), s.path(newname))
}
func (s sub) Remove(name string) error              { return s.fsys.Remove(s.path(name)) }
func (s sub) ReadDir(name string) ([]string, error) { return s.fsys.ReadDir(s.path(name)) }
func (s sub) Usage() (Usage, error)                 { return s.fsys.Usage() }
func (s sub) Lock(name string) (io.Closer, error)   { return s.fsys.Lock(s.path(name)) }

// MkdirAll makes a directory in it; its own name in its parent is synced with it.
func (s sub) MkdirAll(name string) error {
	if err := s.fsys.MkdirAll(s.path(name)); err != nil {
		return err
	}
	return s.fsys.SyncDir(path.Dir(s.dir))
}

func (s sub) SyncDir(name string) error { return s.fsys.SyncDir(s.path(name)) }
