"""HTTP server of the example extenders: JSON in the bodies of POST requests and responses."""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def serve(port, verbs):
    """Serves each verb, a function from the request to the response, at /scheduler/VERB. Prints the URL prefix."""
    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.verbs = {f"/scheduler/{verb}": function for verb, function in verbs.items()}
    print(f"http://127.0.0.1:{server.server_port}/scheduler", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


class Handler(BaseHTTPRequestHandler):
    # Keeps connections open between calls.
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        verb = self.server.verbs.get(self.path)
        if verb is None:
            return self.respond(404, {"error": f"no such verb: {self.path}"})
        try:
            response = verb(json.loads(body))
        except OSError as error:
            return self.respond(502, {"error": f"cannot reach the server behind the extender: {error}"})
        except (KeyError, TypeError, ValueError) as error:
            return self.respond(400, {"error": f"cannot read the request: {error!r}"})
        self.respond(200, response)

    def respond(self, status, message):
        body = json.dumps(message).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, template, *arguments):
        print(template % arguments, file=sys.stderr, flush=True)
