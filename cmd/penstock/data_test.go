package main

import "testing"

func TestParseDataDir(t *testing.T) {
	for text, want := range map[string]dataDir{
		"/mnt/a":                     {path: "/mnt/a"},
		"relative dir,kind=ssd":      {path: "relative dir", kind: "ssd"},
		"/mnt/a,quota=64GiB":         {path: "/mnt/a", quota: 64 << 30},
		"/mnt/a,quota=1TiB,kind=hdd": {path: "/mnt/a", quota: 1 << 40, kind: "hdd"},
		"/mnt/a=b,quota=1":           {path: "/mnt/a=b", quota: 1},
	} {
		if got, err := parseDataDir(text); err != nil || got != want {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ",kind=ssd", "/a,kind=floppy", "/a,kind", "/a,quota=lots", "/a,quota=-1", "/a,size=1", "/a,", "/a,b"} {
		if got, err := parseDataDir(text); err == nil {
			t.Errorf("%q was taken for %+v", text, got)
		}
	}
	f := new(dataFlag)
	if f.Set("/a") != nil || f.Set("/a,quota=1") == nil {
		t.Error("the same directory twice was accepted")
	}
}
