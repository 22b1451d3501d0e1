"""Value types and enums shared by all packages; standard library only."""
