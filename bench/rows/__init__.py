"""One module per group of rows; each has `ROWS`, which maps a row's name on the command line to what measures it."""
