package main

import (
	"fmt"
	"strings"
)

// choice is a flag's value out of a few.
type choice struct {
	value   string
	allowed []string
}

// String returns the value.
func (c *choice) String() string { return c.value }

// Set takes one of the allowed values.
func (c *choice) Set(text string) error {
	for _, allowed := range c.allowed {
		if text == allowed {
			c.value = text
			return nil
		}
	}
	var names []string
	for _, allowed := range c.allowed {
		if allowed == "" {
			allowed = `""`
		}
		names = append(names, allowed)
	}
	return fmt.Errorf("want %s", strings.Join(names, " or "))
}

// Type is how help names the value.
func (c *choice) Type() string { return strings.Join(c.allowed, "|") }
