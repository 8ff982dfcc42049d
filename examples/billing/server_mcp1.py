"""The billing example on `FastMCP` of the official SDK, mcp 1.x."""

from mcp.server.fastmcp import FastMCP
from tools import setup

if __name__ == "__main__":
    server = FastMCP("billing")
    options = setup(server)
    if options.http:
        server.settings.port = options.port  # 1.x reads it from its settings, 127.0.0.1 is their default
        server.run("streamable-http")
    else:
        server.run("stdio")
