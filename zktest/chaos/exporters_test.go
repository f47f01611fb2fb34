package chaos_test

import "testing"

// Their code is in an Example's file, which documentation shows whole if it has no test.

func TestExporters(t *testing.T) { testExporters(t) }

func TestCarelessExporters(t *testing.T) { testCarelessExporters(t) }
