package object

// MaxDataset is the largest length of a dataset's name in bytes.
const MaxDataset = 128

// ValidateDataset accepts 1 to MaxDataset letters, digits, dots, dashes and
// underscores, a letter, digit or underscore first. Such a name is safe as the first
// part of keys and paths, and NAME@VERSION can be taken apart.
func ValidateDataset(name string) error {
	if name == "" || len(name) > MaxDataset {
		return Errorf(Invalid, "dataset name %.40q must have 1 to %d characters", name, MaxDataset)
	}
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_':
		case c == '.' || c == '-':
			if i == 0 {
				return Errorf(Invalid, "dataset name %q may not begin with a dot or dash", name)
			}
		default:
			return Errorf(Invalid, "dataset name %q may hold only letters, digits, dot, dash and underscore", name)
		}
	}
	return nil
}
