"""Who gets in, under which name, and to what."""

from hashlib import sha256
from socket import gethostname

import pytest

from tests.dashboard.played import own_run, play
from tests.dashboard.served import TOKEN, served
from understudy.dashboard.app import static_files
from understudy.dashboard.security import refuse_open
from understudy.dashboard.serve import serve


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("somewhere") / "run"
    with own_run(made) as log:
        play(log, 0)
        yield made


@pytest.fixture(scope="module")
def client(folder):
    with served(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    "path", ["/", "/api/overview", "/static/app.js", "/api/events", "/nothing"]
)
def test_without_the_token_nothing_is_shown(client, path):
    for cookie in ("a=b", f"understudy-{client.port}={TOKEN}", f"understudy-{client.port}="):
        assert client.ask(path, cookie=cookie).status_code == 401
        assert client.ask(path, {"token": "wrong"}, cookie=cookie).status_code == 401
        assert client.ask(path, {"token": "\u00fc\ud7ff"}, cookie=cookie).status_code == 401


def test_the_token_is_exchanged_for_a_cookie_that_scripts_and_other_sites_do_not_get(client):
    cookie = client.enter().headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert TOKEN not in cookie
    assert client.ask("/").status_code == 200
    assert client.get("/api/overview")["runs"][0]["rounds"] == 1


def test_every_answer_carries_the_policy(client):
    for answer in map(client.ask, ("/", "/api/overview", "/x", "/static/app.js")):
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8777", 200),
        ("localhost:9000", 200),  # the near end of an SSH tunnel
        ("[::1]:8777", 200),
        ("evil.example:8777", 400),
        ("127.0.0.1.evil.example", 400),
        ("", 400),
    ],
)
def test_the_server_answers_under_names_of_this_machine_only(client, host, status):
    assert client.ask("/api/overview", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"},
    ],
)
def test_pages_of_other_origins_read_nothing(client, headers):
    assert client.ask("/api/overview", headers=headers).status_code == 403


def test_everything_is_read_only(client):
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/api/overview").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/static/../security.py",
        "/static/..%2fsecurity.py",
        "/static/%2e%2e/app.py",
        "/static//etc/passwd",
        "/api/runs/..%2f..%2fetc/columns",
        "/api/runs/%2fetc%2fpasswd",
        "/api/studies/..%2f../comparison",
    ],
)
def test_no_path_leads_out(client, path):
    answer = client.ask(path)
    assert answer.status_code == 404
    assert "import" not in answer.text


def test_only_files_that_a_page_needs_are_served():
    assert {"index.html", "app.js", "vendor/uplot/uPlot.esm.js"} <= static_files().keys()
    assert not [name for name in static_files() if name.endswith(".py")]


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("uPlot.esm.js", "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba"),
        ("uPlot.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
    ],
)
def test_what_others_wrote_is_as_they_published_it(name, digest):
    """uPlot 1.6.32, from its package."""
    assert sha256(static_files()[f"vendor/uplot/{name}"]).hexdigest() == digest


def test_nothing_tells_where_a_run_is(client, folder):
    for path in ("/api/overview", client.run, f"{client.run}/clients"):
        assert str(folder.parent) not in client.ask(path).text


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::"])
def test_others_are_let_in_by_a_token_that_was_chosen_only(host):
    with pytest.raises(ValueError, match="--token"):
        serve([], host=host)
    refuse_open(host, TOKEN)
    with pytest.raises(ValueError, match="expected 16 characters or more, got 5"):
        refuse_open(host, "short")


def test_under_a_chosen_host_addresses_and_its_own_name_are_answered(tmp_path):
    with served(tmp_path, host="0.0.0.0") as client:
        for host, status in (("192.168.1.5:1", 200), (gethostname(), 200), ("evil.example", 400)):
            assert client.ask("/api/overview", headers={"host": host}).status_code == status
