"""Small general helpers without domain words: files, hashes, states, text, parallel map."""
