"""Tables and pictures from run folders; nothing here trains."""
