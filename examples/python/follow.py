"""Lists the orders of a mirror and then prints every change, with Python's standard library only.

The mirror's OpenAPI document says which operations there are. The position in the feed is kept in a file, so the next run
continues where this one ended.

    python3 follow.py orders.cursor
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

BASE = os.environ.get("MIRROR_URL", "http://127.0.0.1:3000")
TOKEN = os.environ.get("MIRROR_TOKEN")
# The mirror sends a comment every 15 s; a stream that is silent for longer is lost.
SILENCE_SECONDS = 45


class Mirror:
    """Calls the operations of the OpenAPI document by their names."""

    def __init__(self):
        with urllib.request.urlopen(f"{BASE}/openapi.json", timeout=15) as answer:
            paths = json.load(answer)["paths"]
        self.operations = {
            operation["operationId"]: (method, path, operation)
            for path, methods in paths.items()
            for method, operation in methods.items()
        }

    def open(self, operation_id, timeout=15, **parameters):
        method, path, operation = self.operations[operation_id]
        query, headers = {}, {"authorization": f"Bearer {TOKEN}"} if TOKEN else {}
        known = {parameter["name"].replace("-", "_").lower(): parameter for parameter in operation["parameters"]}
        for name, value in parameters.items():
            parameter = known[name.lower()]
            if parameter["in"] == "path":
                path = path.replace("{" + parameter["name"] + "}", urllib.parse.quote(value, safe=""))
            elif parameter["in"] == "header":
                headers[parameter["name"]] = value
            else:
                query[parameter["name"]] = value
        url = f"{BASE}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers=headers, method=method.upper())
        return urllib.request.urlopen(request, timeout=timeout)

    def call(self, operation_id, **parameters):
        with self.open(operation_id, **parameters) as answer:
            return json.load(answer), answer.headers


def list_orders(mirror, **query):
    """All orders, page by page: the address in the Link header continues after the last order."""
    while query is not None:
        page, headers = mirror.call("listOrders", **query)
        yield from page["data"]
        link = headers.get("link")
        query = link and dict(urllib.parse.parse_qsl(link.split("<?", 1)[1].split(">", 1)[0]))


def read_events(stream):
    """The server-sent events of a stream: (name, id, data)."""
    name, event_id, data = None, None, []
    for line in stream:
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "id":
            event_id = value
        elif field == "event":
            name = value
        elif field == "data":
            data.append(value)
        elif line.strip() == b"":
            if data:
                yield name, event_id, json.loads("\n".join(data))
            name, data = None, []


def follow(mirror, position):
    """Every change after the position, and up to when there is none left, for ever: (name, position, data)."""
    wait = 1
    while True:
        try:
            with mirror.open("streamChanges", timeout=SILENCE_SECONDS, last_event_id=position) as stream:
                wait = 1
                for name, position, data in read_events(stream):
                    yield name, position, data
        except urllib.error.HTTPError as error:
            # 410: the changes after this position cannot be read any more. Begin again, without the file of the position.
            # Other refusals do not pass by themselves.
            if error.code not in (429, 500, 502, 503, 504):
                raise
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(wait)
        wait = min(wait * 2, 30)


def save(cursor_file, position):
    with open(cursor_file + ".new", "w", encoding="utf-8") as file:
        file.write(position)
    os.replace(cursor_file + ".new", cursor_file)


def main(cursor_file):
    mirror = Mirror()
    if os.path.exists(cursor_file):
        with open(cursor_file, encoding="utf-8") as file:
            position = file.read()
    else:
        # First the end of the feed, then the orders: what changes meanwhile comes again and is not missed.
        page, _ = mirror.call("listChanges", after="latest", limit=1)
        position = page["next"]
        for order in list_orders(mirror, limit=200):
            print("order", order["reference"], order["status"], order["updatedAt"], flush=True)
        save(cursor_file, position)
    for name, position, data in follow(mirror, position):
        if name == "change":
            print("change", data["reference"], data["revision"], data["status"], data["updatedAt"], flush=True)
            save(cursor_file, position)
        elif name == "complete":
            # Every change with an earlier updatedAt has been printed.
            print("complete", data["through"], flush=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1] if len(sys.argv) > 1 else "orders.cursor")
    except KeyboardInterrupt:
        pass
