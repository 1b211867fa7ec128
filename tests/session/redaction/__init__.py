"""No error out of a session in a conversation shows a key; a plain session's are as they were."""
