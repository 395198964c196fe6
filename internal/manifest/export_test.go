package manifest

import "io"

// FinishWith is Finish with one more section, as a newer version may write it, and
// a feature bit that may be ignored.
func (w *Writer) FinishWith(kindNumber uint16, content []byte, mayIgnore uint32) error {
	defer w.Abort()
	parts, err := w.parts()
	if err != nil {
		return err
	}
	w.head.mayIgnore = mayIgnore
	more := part{id: id{kind: kind(kindNumber)}, length: int64(len(content)), write: func(to io.Writer) error {
		_, err := to.Write(content)
		return err
	}}
	return assemble(w.path, &w.head, append(parts, more))
}
