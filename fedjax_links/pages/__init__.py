"""Tables and figures as pages of Markdown, CSV and pictures; previews and reports write them."""
