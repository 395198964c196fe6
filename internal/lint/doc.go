// Package lint holds the rules of the house as tests: who may import whom, what
// a package may be called, that every package says what it is. It has no code of
// its own.
package lint
