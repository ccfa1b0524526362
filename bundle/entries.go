package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// An entry is a file of a bundle, in a zip or in a folder.
type entry struct {
	name    string
	size    uint64
	regular bool
	open    func() (io.ReadCloser, error)
}

func openBundle(path string) ([]entry, io.Closer, error) {
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("cannot open the bundle: %w", err)
	case fi.IsDir():
		entries, err := folderEntries(path)
		return entries, io.NopCloser(nil), err
	case !fi.Mode().IsRegular():
		return nil, nil, errors.New("neither a file nor a folder: name a bundle")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open the bundle: %w", err)
	}
	z, err := zip.NewReader(f, fi.Size())
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("cannot read the bundle: %w: it is not a whole zip; build or download it again", err)
	}
	return zipEntries(z.File), f, nil
}

func zipEntries(files []*zip.File) []entry {
	var entries []entry
	for _, f := range files {
		entries = append(entries, entry{f.Name, f.UncompressedSize64, f.Mode().IsRegular(), f.Open})
	}
	return entries
}

func folderEntries(path string) ([]entry, error) {
	list, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the folder: %w", err)
	}
	var entries []entry
	for _, de := range list {
		fi, err := de.Info()
		if err != nil {
			return nil, fmt.Errorf("cannot read the folder: %w", err)
		}
		open := func() (io.ReadCloser, error) { return os.Open(filepath.Join(path, de.Name())) }
		entries = append(entries, entry{de.Name(), uint64(fi.Size()), fi.Mode().IsRegular(), open})
	}
	return entries, nil
}

// checkEntries decides what may be unpacked at all, before anything is read.
func checkEntries(entries []entry) error {
	var names []string
	var total uint64
	for _, e := range entries {
		names = append(names, e.name)
		if err := checkName(e.name); err != nil {
			return err
		}
		if !e.regular {
			return fmt.Errorf("%q is a link, a folder or a device: a bundle holds only files", e.name)
		}
		if e.size > maxUnpacked || total+e.size > maxUnpacked {
			return fmt.Errorf("the bundle unpacks to more than %d bytes: too much for a gateway", int64(maxUnpacked))
		}
		total += e.size
	}
	return checkNames(names)
}

func find(entries []entry, name string) *entry {
	for i := range entries {
		if entries[i].name == name {
			return &entries[i]
		}
	}
	return nil
}

func readManifest(entries []entry) (*manifest, error) {
	e := find(entries, manifestName)
	if e == nil {
		return nil, fmt.Errorf("no %s in the bundle: build it with \"bundle build\"", manifestName)
	}
	r, err := e.open()
	if err != nil {
		return nil, fmt.Errorf("cannot read the manifest: %w", err)
	}
	defer r.Close()
	return decodeManifest(r)
}

// copyTo reads no more than the size that was checked, whatever is behind it.
func (e *entry) copyTo(w io.Writer) (int64, error) {
	r, err := e.open()
	if err != nil {
		return 0, fmt.Errorf("cannot read %q: %w", e.name, err)
	}
	defer r.Close()
	n, err := io.Copy(w, io.LimitReader(r, int64(e.size)+1))
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot read %q: %w: the bundle is damaged; build or download it again", e.name, err)
	case uint64(n) != e.size:
		return 0, fmt.Errorf("%q is not as long as the bundle says: build or download it again", e.name)
	case n == 0:
		return 0, fmt.Errorf("%q is empty: build the bundle again", e.name)
	}
	return n, nil
}
