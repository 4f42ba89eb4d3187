"""An MCP server over standard input and output, with one tool: `write` makes a file in the folder of its only argument."""

import json
import pathlib
import sys

TOOL = {
    "name": "write",
    "description": "Makes a file.",
    "inputSchema": {"type": "object", "properties": {"name": {"type": "string"}, "text": {"type": "string"}}, "required": ["name", "text"]},
}


def answer(method, parameters):
    match method:
        case "initialize":
            return {"protocolVersion": parameters["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "files", "version": "1"}}
        case "tools/list":
            return {"tools": [TOOL]}
        case "tools/call":
            asked = parameters["arguments"]
            pathlib.Path(sys.argv[1], asked["name"]).write_text(asked["text"])
            return {"content": [{"type": "text", "text": "It is there."}]}
        case _:
            return {}


for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": answer(request["method"], request.get("params", {}))}), flush=True)
