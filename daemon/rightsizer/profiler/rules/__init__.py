"""Rules over profiles, one file each; `registry` lists them."""
