"""Files to tables: lines, rows, formats."""
