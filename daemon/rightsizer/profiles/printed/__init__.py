"""Tables that profilers print: lines, records, numbers and units."""
