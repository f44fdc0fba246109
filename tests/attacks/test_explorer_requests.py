"""Hostile requests to the explorer's server, seeded: one clear line each, no 500, no traceback, and it goes on."""

import contextlib
import http.client
import json
import random
import socket
import threading
import time

import pytest
from explorer_cases import acting, serving

pytestmark = pytest.mark.browser
limits = pytest.importorskip("simlab.explore.limits")

REQUESTS = 400
LONGEST_REFUSAL = 4096  # bytes of its body: the longest lists every estimator
SECONDS = 5.0  # for any answer


@pytest.fixture(scope="module")
def server():
    """A server whose simulations are answered at once, and whose log holds no failure at the end."""
    with serving(acting(0)) as found:
        yield found
    assert found.failures() == []


def sent(server, data, pieces=1, half_closed=False):
    """Status, headers and body that a server answers to bytes; None where it hangs up without an answer."""
    with contextlib.closing(socket.create_connection(("127.0.0.1", server.port), SECONDS)) as connection:
        with contextlib.suppress(OSError):  # it may hang up while a large request is still on its way
            for piece in range(pieces):
                connection.sendall(data[piece * len(data) // pieces : (piece + 1) * len(data) // pieces])
            if half_closed:
                connection.shutdown(socket.SHUT_WR)
        answer = http.client.HTTPResponse(connection, method=data[:4].decode("latin-1").strip())
        try:
            answer.begin()
            return answer.status, answer.headers, answer.read()
        except (ConnectionError, http.client.HTTPException):
            return None


def posted(server, body, **headers):
    """The request that a page would send, with other headers where they are given; None leaves one out."""
    own = {"Host": f"127.0.0.1:{server.port}", "Content-Type": "application/json", "Content-Length": len(body)}
    own |= {"Connection": "close"} | {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{name}: {value}" for name, value in own.items() if value is not None]
    return "\r\n".join(["POST /simulate HTTP/1.1", *lines, "", ""]).encode("latin-1") + body


def check_refusal(answer):
    """An answer that refuses: a status that blames the request, and one line of bounded length."""
    status, headers, body = answer
    assert 400 <= status < 500, answer
    assert len(body) <= LONGEST_REFUSAL
    if headers["Content-Type"] == "application/json":  # else uvicorn itself could not read the request
        (line,) = json.loads(body).values()
        assert "\n" not in line
        assert "Traceback" not in line
        return line
    return body.decode()


def check_answers_others(server):
    status, _, body = sent(server, posted(server, b'{"panel": "run", "settings": {"steps": 77}}'))
    assert (status, json.loads(body.splitlines()[-1])["result"]) == (200, 77)


# Numbers


@pytest.mark.parametrize("digits", [33, 400, 4300, 4301, 15_000])
@pytest.mark.parametrize(
    "body",
    [
        '{"panel": "run", "settings": {"steps": NUMBER}}',
        '{"panel": "run", "settings": {"learning_rate": NUMBER}}',
        '{"panel": "run", "settings": {"seed": -NUMBER}}',
        '{"panel": "tree", "first": NUMBER}',
        '{"panel": NUMBER}',
        '{"panel": "run", "settings": {"steps": 0.NUMBER}}',
        '{"panel": "run", "settings": {"steps": 1eNUMBER}}',
        '{"panel": "run", "settings": {"weight": "asym_grpo(delta=NUMBER)"}}',
    ],
)
def test_a_long_number_is_named_in_short_and_refused(server, body, digits):
    line = check_refusal(sent(server, posted(server, body.replace("NUMBER", "7" * digits).encode())))
    assert "is too long; allowed: up to " in line
    assert f"{'7' * 10}" in line
    assert len(line) < 200


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e309"])
def test_a_number_beyond_the_floats_is_refused(server, number):
    for body in (f'{{"panel": "run", "first": {number}}}', f'{{"panel": "run", "settings": {{"steps": {number}}}}}'):
        line = check_refusal(sent(server, posted(server, body.encode())))
        assert line == f"the number {number} is too large; allowed: up to 1.7e308"


@pytest.mark.parametrize("depth", [10, 900, 985, 990, 995, 1000, 1005, 8000])
@pytest.mark.parametrize("body", ["NESTED", '{"panel": NESTED}', '{"panel": "run", "settings": {"steps": NESTED}}'])
def test_nested_json_is_refused_at_every_depth(server, body, depth):
    """Near the depth at which Python gives up, what could still be read could no longer be written into a message."""
    for opening, closing in (("[", "]"), ('{"a":', "}")):
        nested = opening * depth + ("1" if opening != "[" else "") + closing * depth
        assert len(check_refusal(sent(server, posted(server, body.replace("NESTED", nested).encode()[:16_000])))) < 300


# Anything at all


def hostile_value(moments):
    """Some value of JSON, as text."""
    return moments.choice(
        [
            "null", "true", "[]", "{}", '""', "0", "-1", "1e308", "-0.0", "NaN", "Infinity", '"NaN"', "[[1]]",
            str(moments.randrange(-(10**30), 10**30)), "1" * moments.randrange(1, 500), repr(moments.gauss(0, 1e200)),
            json.dumps("".join(chr(moments.randrange(0xD800)) for _ in range(moments.randrange(600)))), '"\\ud800"',
            '"__proto__"', '"constructor"', '"grpo(((("', '"asym_grpo(delta=1e999)"', '"asym_grpo(delta=nan)"',
            '"f_grpo(base=f_grpo)"', '"pkpo(k=-0.0)"', '{"a": {"b": 1}}', json.dumps("x" * moments.randrange(20_000)),
        ]
    )  # fmt: skip


def hostile_body(moments):
    """A request's body: one of the right form with some values swapped, or bytes of any kind."""
    names = ["steps", "weight", "group_size", "optimizer", "actions", "seed", "correct", "__class__", "step" * 200, ""]
    count = moments.choice([0, 1, 1, 3])
    settings = ", ".join(f"{json.dumps(moments.choice(names))}: {hostile_value(moments)}" for _ in range(count))
    entries = {
        "panel": moments.choice(['"run"', '"run"', '"run"', hostile_value(moments)]),
        "settings": moments.choice([f"{{{settings}}}"] * 4 + [hostile_value(moments)]),
        "first": moments.choice(["0", "1", hostile_value(moments)]),
        "page": moments.choice(['"a"', '"b"', hostile_value(moments)]),
        moments.choice(["more", "panel", "Settings"]): hostile_value(moments),
    }
    kept = ["panel"] * (moments.random() < 0.9) + [name for name in list(entries)[1:] if moments.random() < 0.4]
    body = "{" + ", ".join(f"{json.dumps(name)}: {entries[name]}" for name in kept) + "}"
    encoded = body.encode(moments.choice(["utf-8", "utf-8", "utf-8", "utf-16", "utf-32"]))
    if moments.random() < 0.2:
        place = moments.randrange(len(encoded))
        encoded = encoded[:place] + moments.randbytes(moments.randrange(4)) + encoded[place + moments.randrange(4) :]
    return encoded


def hostile_request(server, moments):
    """The bytes of a request that is wrong in some way, or in several, and whether they break off."""
    if moments.random() < 0.1:
        return moments.randbytes(moments.randrange(1, 400)) + b"\r\n\r\n", True
    body = hostile_body(moments)
    headers = {
        "Content-Type": moments.choice(["application/json"] * 8 + ["text/plain", "", "APPLICATION/json;x=y", None]),
        "Host": moments.choice([f"127.0.0.1:{server.port}"] * 12 + ["evil.example", "", None, "127.0.0.1:99999"]),
        "Origin": moments.choice([None] * 9 + [f"http://127.0.0.1:{server.port}", "null", "http://evil.example"]),
        "Content-Length": moments.choice([len(body)] * 9 + [0, -1, "x", len(body) - 1, "1" * 50, None]),
        "X-Forwarded-For": moments.choice([None, "1.2.3.4", "\xff\xfe"]),
        "Upgrade": moments.choice([None] * 9 + ["websocket", "h2c"]),
        "Transfer-Encoding": moments.choice([None] * 12 + ["chunked", "gzip"]),
        "Cookie": moments.choice([None] * 9 + ["x" * 70_000]),
    }
    request = posted(server, body, **headers)
    if moments.random() < 0.15:
        method = moments.choice(["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PATCH", "X" * 300])
        request = request.replace(b"POST", method.encode(), 1)
    if moments.random() < 0.15:
        path = moments.choice(
            [
                "/page/../server.py", "/page/..%2f..%2fserver.py", "//etc/passwd", "/page/%00.js", "/page/main.js%00",
                "/page/%ff%fe.js", "/page/main.js/", "/page/" + "a" * 200 + ".js", "/%2e%2e/%2e%2e/etc/passwd", "*",
                "http://evil.example/", "/simulate?" + "x=1&" * 4000, "/" + "x" * 60_000, "/page/.js", "/page/..js",
            ]
        )  # fmt: skip
        request = request.replace(b"/simulate", path.encode(), 1)
    breaks_off = moments.random() < 0.1
    return request[: moments.randrange(1, len(request))] if breaks_off else request, breaks_off


def test_hostile_requests_get_one_line_and_the_server_goes_on(server, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.1)
    moments, statuses = random.Random(0), []
    for _ in range(REQUESTS):
        request, breaks_off = hostile_request(server, moments)
        answer = sent(server, request, pieces=moments.choice([1, 1, 3]), half_closed=breaks_off)
        if answer is None:
            continue
        statuses.append(answer[0])
        if answer[0] != 200 and not request.startswith(b"HEAD"):  # whose answers have no body
            check_refusal(answer)
    assert {200, 400, 403, 404, 405, 413} <= set(statuses)
    assert len(statuses) > REQUESTS / 2
    check_answers_others(server)


def test_every_file_that_is_served_is_one_of_the_page(server):
    """No path, however it is written, brings a line of the server's own source."""
    for path in ("/page/../server.py", "/page/..%2fserver.py", "/page/%2e%2e/server.py", "/page/..\\server.py"):
        request = posted(server, b"").replace(b"POST /simulate", f"GET {path}".encode())
        check_refusal(sent(server, request))


# Clients that are slow, or go


def test_clients_that_break_off_or_dawdle_hold_up_nobody(server, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    whole = posted(server, b'{"panel": "run", "settings": {"steps": 66}}')
    head = whole.index(b"\r\n\r\n") + 4
    dawdling = [socket.create_connection(("127.0.0.1", server.port), SECONDS) for _ in range(120)]
    for number, connection in enumerate(dawdling):
        connection.sendall(whole[: (0, 10, head, head + 5)[number % 4]])
    began = time.monotonic()
    check_answers_others(server)
    assert time.monotonic() - began < SECONDS
    for number, connection in enumerate(dawdling):
        if number % 4 >= 2:
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            assert "too slowly; allowed: up to 0.5 s" in check_refusal((answer.status, answer.headers, answer.read()))
        connection.close()
    check_answers_others(server)


def test_a_client_that_never_reads_holds_up_nobody(server):
    unread = [socket.create_connection(("127.0.0.1", server.port), SECONDS) for _ in range(20)]
    request = posted(server, b"").replace(b"POST /simulate", b"GET /plotly.js").replace(b"close", b"keep-alive")
    for connection in unread:
        connection.sendall(request * 5)
    check_answers_others(server)
    for connection in unread:
        connection.close()


def test_requests_of_many_threads_at_once_are_answered(server):
    answers, bodies = [], [hostile_body(random.Random(seed)) for seed in range(100)]
    threads = [
        threading.Thread(target=lambda body=body: answers.append(sent(server, posted(server, body)))) for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == len(bodies)
    assert all(answer is not None and answer[0] < 500 for answer in answers)
    assert {200, 400} <= {answer[0] for answer in answers}


# Two servers on one port


def test_of_two_servers_that_begin_at_one_port_one_is_refused_in_one_line():
    from simlab.errors import InputError  # noqa: PLC0415
    from simlab.explore.server import listening  # noqa: PLC0415

    port, found, refused = listening(0), [], []
    number = port.getsockname()[1]
    port.close()
    ready = threading.Barrier(8)

    def begin():
        ready.wait()
        try:
            found.append(listening(number))
        except InputError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        one.close()
    message = f"port = {number} cannot be used: address already in use; allowed: a free one, or 0 for any"
    assert (len(found), set(refused)) == (1, {message})
