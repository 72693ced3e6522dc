"""The corpora jumok knows, kind by kind: where from, under which licence, split how."""
