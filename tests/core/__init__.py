"""Keys, pytrees, memory, references, descriptions."""
