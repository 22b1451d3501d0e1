"""What commands share: tables, wrapped text, flags, output, errors."""
