"""Charts as inline SVG: small, with a title and a description, colored by the style sheet."""
