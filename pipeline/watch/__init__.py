"""The dashboard in a terminal: a client of the gateway like the page, drawn by Textual."""
