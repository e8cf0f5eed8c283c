"""Label Studio: its formats, its API as a client, and its ML backend as a server."""
