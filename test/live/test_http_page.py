"""
The live page in a real browser: headless Chromium, which clicks.

PGWEIR_SCREENSHOTS: a directory for pictures of the page, to be looked at.
"""
import contextlib
import os
import re
import socket
import threading

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from support import messages as m
from support.live import ended_with
from support.ports import free_port
from support.until import until


@pytest.fixture(scope="module")
def browser(worker_directory):
    options = webdriver.ChromeOptions()
    options.add_argument("--user-data-dir=" + os.path.join(worker_directory, "browser"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1300,1000"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    yield driver
    driver.quit()


def picture(browser, name):
    directory = os.environ.get("PGWEIR_SCREENSHOTS")
    if directory:
        browser.save_screenshot(os.path.join(directory, name + ".png"))


class Page:
    """The page of a pgweir, opened by a user."""

    def __init__(self, browser, weir, user=None):
        self.browser = browser
        port = weir.settings["http_listen_port"]
        browser.get("about:blank")
        browser.get_log("browser")
        browser.get_log("performance")
        if user:
            browser.get("http://%s:%s-secret@127.0.0.1:%d/login" % (user, user, port))
        else:
            browser.get("http://127.0.0.1:%d/" % port)
        until(lambda: self.text("#state") not in ("", "connecting", "no answer"), "the first answer")

    def text(self, selector):
        return self.browser.execute_script("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def wait_state(self, state):
        until(lambda: self.text("#state") == state, "the state is shown: " + state)

    def rows(self):
        """The shown pools: a list of the texts of the cells."""
        return self.browser.execute_script("return [...document.querySelectorAll('#pools tbody tr')].map(r => [...r.children].map(c => c.innerText))")

    def names(self):
        return [row[0] for row in self.rows()]

    def click(self, selector):
        self.browser.find_element(By.CSS_SELECTOR, selector).click()

    def has_no_faults(self):
        """The browser reports no error, and has asked no other address."""
        faults = [entry for entry in self.browser.get_log("browser") if entry["level"] == "SEVERE" and "status of 4" not in entry["message"]]
        assert not faults, faults
        asked = [entry["message"] for entry in self.browser.get_log("performance") if '"Network.requestWillBeSent"' in entry["message"]]
        assert asked and all("127.0.0.1" in message or "data:," in message or "about:blank" in message for message in asked)


def with_page(scene, databases, **settings):
    return scene.weir(databases, http_listen_port=free_port(), pool_mode="transaction", server_idle_timeout=0, **settings)


@contextlib.contextmanager
def load(weir, databases, clients=2):
    """Clients that query all the time."""
    over = threading.Event()

    def work(client):
        while not over.is_set():
            client.query("query")
            over.wait(0.005)
    threads = [threading.Thread(target=work, args=(weir.client(database=database),)) for database in databases for _ in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_pools_sort_and_filter(scene, browser):
    """Waiting clients come first; headings sort, with the mouse and the keyboard."""
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d" % fake.port
    weir = with_page(scene, {"alpha": target, "beta": target, "gamma": target + " pool_size=1"})
    with load(weir, ["alpha", "beta"]):
        holder, waiter = weir.client(database="gamma"), weir.client(database="gamma")
        holder.query("BEGIN")
        waiter.send(m.query("later"))
        page = Page(browser, weir)
        until(lambda: page.names()[:1] == ["gamma"], "the pool with a waiting client is first")
        (row,) = [row for row in page.rows() if row[0] == "gamma"]
        assert row[1:4] == ["app", "transaction", "1"] and row[11] == "pool_size"
        assert "gamma/app: 1 client waits, the first for " in page.text("#why")
        # the state and its colour, and the name of the pooler
        assert page.text("#problems").endswith("1 client waits for a server")
        # the alarm names the holder and the remedy
        until(lambda: page.text("#state") == "pool used up gamma/app", "the alarm in the badge")
        assert re.search(r"^pool used up gamma/app, since \S+ \S+ \S+: clients that wait: 1, .*: idle in transaction for .* SHOW WAITS names the holder",
                         page.text("#problems"))
        until(lambda: "bad" in browser.find_element(By.ID, "state").get_attribute("class"), "the client has waited for five seconds")
        name = "%s:%d" % (socket.gethostname(), weir.port)
        assert browser.title == name + " – pgweir" and page.text("h1") == "pgweir " + name
        assert re.search(r"up \d+ s, .*/pgweir.ini$", page.text("#version"))
        until(lambda: re.search(r"1 of 1 server connections are in use .*; the longest in use: .*, by client C-0x\w+ on S-0x\w+ \(.*backend process \d+\): idle in transaction", page.text("#why")), "the holder is named")
        page.click("#pools thead th:nth-child(1) button")
        assert page.names() == ["alpha", "beta", "gamma"]
        heading = browser.find_element(By.CSS_SELECTOR, "#pools thead th:nth-child(1) button")
        heading.send_keys(Keys.ENTER)
        assert page.names() == ["gamma", "beta", "alpha"]
        assert browser.find_element(By.CSS_SELECTOR, "#pools thead th:nth-child(1)").get_attribute("aria-sort") == "descending"
        browser.find_element(By.ID, "filter").send_keys("ALP")
        assert page.names() == ["alpha"]
        assert page.text("#pool-count") == "1 of 3"
        browser.find_element(By.ID, "filter").clear()
        holder.query("COMMIT")
        until(lambda: not browser.find_element(By.ID, "why-section").is_displayed(), "no client waits any more")
        weir.connect().refused(user="app", database="nowhere")
        until(lambda: "no such database: nowhere" in page.text("#warnings tbody tr"), "the last warning of the log")
        # queries are drawn
        until(lambda: re.search(r"queries [\d,]*\d\d", label(browser, 0)), "queries per second")
        picture(browser, "pools")
        assert not browser.find_element(By.ID, "all-actions").is_displayed()
        assert not browser.find_elements(By.CSS_SELECTOR, "#pools tbody td:not([hidden]) button")
        assert re.match(r"127.0.0.1:\d+\t\tup\t\t3\t\d\t\d", page.text("#hosts tbody tr"))
        page.has_no_faults()


def label(browser, number):
    return browser.find_elements(By.CSS_SELECTOR, "#charts [role=img]")[number].get_attribute("aria-label") or ""


def test_an_administrator_pauses_and_resumes(scene, browser):
    """With a question before each command; Escape and Cancel change nothing."""
    fake = scene.mini()
    weir = with_page(scene, {"alpha": "host=127.0.0.1 port=%d" % fake.port})
    client = weir.client(database="alpha")
    client.query("once")
    page = Page(browser, weir, "admin")
    assert browser.current_url.endswith("/") and "admin (administrator)" in page.text("#you")
    until(lambda: page.names() == ["alpha"], "the pool")
    pause = "#pools tbody button[data-verb=pause]"
    page.click(pause)
    assert page.text("#question-title") == "Pause database alpha?"
    assert browser.switch_to.active_element.get_attribute("id") == "question-no"
    picture(browser, "question")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    page.click(pause)
    page.click("#question-no")
    assert weir.show("DATABASES")[0]["paused"] == 0
    page.click(pause)
    page.click("#question-yes")
    page.wait_state("1 paused")
    assert weir.show("DATABASES")[0]["paused"] == 1
    assert page.text("#message") == "PAUSE alpha: done"
    # beside the buttons, and the row tells it
    assert page.text("#pools tbody tr.paused .commands [role=status]") == "done"
    client.send(m.query("later"))
    until(lambda: "the database is paused. RESUME ends it." in page.text("#why"), "why the client waits")
    page.click("#pools tbody button[data-verb=resume]")
    page.click("#question-yes")
    page.wait_state("active")
    assert client.result().value == "later"
    page.click("#pools tbody button[data-verb=reconnect]")
    page.click("#question-yes")
    until(lambda: page.text("#message") == "RECONNECT alpha: done", "RECONNECT")
    page.click("#all-actions button[data-verb=pause]")
    assert page.text("#question-title") == "Pause all databases?"
    page.click("#question-yes")
    page.wait_state("paused")
    page.click("#all-actions button[data-verb=resume]")
    page.click("#question-yes")
    page.wait_state("active")
    weir.wait_log(r"LOG PAUSE 'alpha' command issued \(HTTP: 127.0.0.1:\d+ user admin\)")
    page.has_no_faults()


def test_a_client_is_killed(scene, browser):
    """The clients of a pool, the line for the configuration, and KILL_CLIENT after a question; by keyboard alone."""
    fake = scene.mini()
    weir = with_page(scene, {"alpha": "host=127.0.0.1 port=%d user=boss" % fake.port, "beta": "host=127.0.0.1 port=%d" % fake.port})
    client, other = weir.client(database="alpha"), weir.client(database="beta")
    client.query("BEGIN")
    page = Page(browser, weir, "admin")
    until(lambda: sorted(page.names()) == ["alpha", "beta"], "the pools")
    (name,) = [b for b in browser.find_elements(By.CSS_SELECTOR, "#pools tbody th button") if b.text == "alpha"]
    name.send_keys(Keys.ENTER)
    assert page.text("#pool-title") == "Pool alpha/boss" and browser.switch_to.active_element.get_attribute("id") == "pool-title"
    until(lambda: page.text("#clients-title") == "Clients: 1", "the client of this pool only")
    line = lambda: browser.find_element(By.ID, "set-line").get_attribute("value")
    until(lambda: line() == "alpha = host=127.0.0.1 port=%d dbname=alpha user=boss pool_mode=transaction pool_size=20" % fake.port, "the line")
    browser.find_element(By.ID, "set-size").send_keys(Keys.BACKSPACE * 3 + "7")
    browser.find_element(By.ID, "set-user").clear()
    browser.find_element(By.ID, "set-user").send_keys("o'neil")
    assert line().endswith(" user='o''neil' pool_mode=transaction pool_size=7")
    picture(browser, "pool")
    browser.find_element(By.CSS_SELECTOR, "#clients button").send_keys(Keys.ENTER)
    assert re.match(r"Kill client 0x\w+\?", page.text("#question-title"))
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    until(lambda: page.text("#clients-title") == "Clients: 1", "still there")
    browser.find_element(By.CSS_SELECTOR, "#clients button").send_keys(Keys.ENTER)
    page.click("#question-yes")
    until(lambda: page.text("#clients-title") == "Clients: 0", "the client is gone")
    assert re.match(r"KILL_CLIENT 0x\w+: done", page.text("#message"))
    ended_with(client, "admin forced disconnect")
    other.query("unhurt")
    page.click("#pool-close")
    assert browser.switch_to.active_element.text == "alpha"
    page.has_no_faults()


def test_graphs_of_a_pool(scene, browser):
    """An opened pool has graphs of its own, with its limits; they go with it."""
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d" % fake.port
    weir = with_page(scene, {"alpha": target + " pool_size=3 max_db_client_connections=9", "beta": target})
    with load(weir, ["alpha"]):
        client = weir.client(database="beta")
        page = Page(browser, weir)
        until(lambda: sorted(page.names()) == ["alpha", "beta"], "the pools")

        def labels(box="#pool-charts"):
            return browser.execute_script("return [...document.querySelectorAll(arguments[0] + ' [role=img]')].map(e => e.ariaLabel ?? '')", box)

        def shows(name, *expected):
            [b for b in browser.find_elements(By.CSS_SELECTOR, "#pools tbody th button") if b.text == name][0].click()
            return until(lambda: all(any(re.search(text, found) for found in labels()) for text in expected), "the graphs: %s" % [labels(), page.text("#message"), browser.get_log("browser")])
        shows("alpha", "^Queries and transactions per second, now: queries [1-9]", "^Clients, now: clients 2, max_db_client_connections 9$",
              "^Server connections, now: .*, pool_size 3$", r"^Time of a query in the last minute, now: median [1-9]\d* .s, 99 % [1-9]")
        assert len(labels()) == 9 and "pool_size" not in " ".join(labels("#charts"))
        until(lambda: re.search("median [1-9].*, 99 % [1-9]", [t for t in labels("#charts") if t.startswith("Time of a query,")][0]), "latencies in sum")
        picture(browser, "graphs")
        shows("beta", "^Clients, now: clients 1$", "^Queries and transactions per second, now: queries 0,", "99 % none$")
        # the address has the opened pool
        assert browser.current_url.endswith("/#db=beta&user=app")
        browser.refresh()
        until(lambda: page.text("#pool-title") == "Pool beta/app" and len(labels()) == 9, "it is open again")
        page.click("#pool-close")
        assert labels() == [] and browser.current_url.endswith("/")
    client.query("still")
    page.has_no_faults()


def test_size_and_mode_are_set(scene, browser):
    """By keyboard: a question, the command, the new values in the row; RELOAD ends them. A refusal is told."""
    fake = scene.mini()
    target = "host=127.0.0.1 port=%d" % fake.port
    weir = with_page(scene, {"alpha": target, "*": target}, show_extra_columns=1)
    clients = [weir.client(database=name) for name in ("alpha", "made-up")]
    page = Page(browser, weir)
    until(lambda: sorted(page.names()) == ["alpha", "made-up"], "the pools")
    page.click("#pools tbody th button")
    assert not browser.find_element(By.ID, "set-apply").is_displayed()
    page = Page(browser, weir, "admin")
    until(lambda: sorted(page.names()) == ["alpha", "made-up"], "the pools")

    def apply(name, size, mode=None):
        [b for b in browser.find_elements(By.CSS_SELECTOR, "#pools tbody th button") if b.text == name][0].send_keys(Keys.ENTER)
        until(lambda: page.text("#pool-title").startswith("Pool " + name), "it is open")
        field = browser.find_element(By.ID, "set-size")
        field.clear()
        field.send_keys(size)
        if mode:
            browser.find_element(By.ID, "set-mode").send_keys(mode)
        field.send_keys(Keys.ENTER)
        return page.text("#question-title")
    assert apply("alpha", "7", "session") == "Set pool_mode = session, pool_size = 7 for all pools of database alpha?"
    assert browser.switch_to.active_element.get_attribute("id") == "question-no"
    picture(browser, "set")
    browser.switch_to.active_element.send_keys(Keys.ESCAPE)
    assert weir.pool("alpha")["pool_size"] == 20
    browser.find_element(By.ID, "set-apply").send_keys(Keys.ENTER)
    page.click("#question-yes")
    until(lambda: page.text("#message").startswith('SET alpha.pool_size: "alpha.pool_size" is "7" until the next RELOAD'), "the answer")
    pool = weir.pool("alpha")
    assert (pool["pool_size"], pool["pool_mode"]) == (7, "session")
    until(lambda: [row[2] for row in page.rows() if row[0] == "alpha"] == ["session"], "the row")
    browser.find_element(By.ID, "set-apply").send_keys(Keys.ENTER)
    assert page.text("#message") == "Mode and size have these values already."
    apply("made-up", "3")
    page.click("#question-yes")
    until(lambda: page.text("#message") == 'SET made-up.pool_size: "made-up" has no entry in [databases]: "*" applies', "the refusal")
    weir.admin("RELOAD")
    assert weir.pool("alpha")["pool_size"] == 20
    assert [client.query("still").value for client in clients] == ["still"] * 2
    page.has_no_faults()


def test_hosts_show_roles_and_their_changes(scene, browser):
    """A host that does not answer is a problem in the badge, and a line below the hosts."""
    primary, _ = scene.hosts("127.0.0.1", "127.0.0.2")
    weir = with_page(scene, {"alpha": "host=127.0.0.1,127.0.0.2 port=%d" % primary.port, "beta": "host=127.0.0.2 port=%d" % primary.port})
    client = weir.client(database="beta")
    client.query("once")
    page = Page(browser, weir)
    until(lambda: page.text("#hosts tbody").count("127.0.0.2") == 1, "a host of two databases has one row")
    # as SHOW HOSTS would tell it
    browser.execute_script("hosts = hosts.map(h => ({ ...h, state: 'down' })); drawState()")
    assert re.match(r"host 127\.0\.0\.\d:\d+: down", page.text("#state"))
    browser.execute_script("drawEvents(hosts.map(h => ({ ...h, state: 'up', role: 'primary' })))")
    assert re.search(r"127\.0\.0\.\d:\d+: down → primary, up", page.text("#events"))
    page.has_no_faults()


def test_an_alarm_begins_and_ends(scene, browser):
    """A critical alarm colours the badge, its sentence has the remedy, and the page says when it is over."""
    fake = scene.mini(host="127.0.0.1")
    weir = with_page(scene, {"alpha": "host=127.0.0.1 port=%d" % fake.port}, server_login_retry=0)
    page = Page(browser, weir)
    assert page.text("#state") == "active" and page.text("#problems") == page.text("#over") == ""
    fake.stop_listening()
    client = weir.connect()
    client.send(m.startup(user="app", database="alpha"))
    page.wait_state("host unreachable 127.0.0.1:%d" % fake.port)
    assert "bad" in browser.find_element(By.ID, "state").get_attribute("class")
    assert re.search(r"^host unreachable 127.0.0.1:%d, since .*: connect failed \(Connection refused\).* Check that PostgreSQL runs" % fake.port, page.text("#problems"))
    until(lambda: "down" in page.text("#hosts tbody"), "the state of the host")
    picture(browser, "alarm")
    fake.listen()
    client.read_until("Z")
    page.wait_state("active")
    assert re.search(r"over at .*: host unreachable 127.0.0.1:%d" % fake.port, page.text("#over"))
    page.has_no_faults()


def test_a_pooler_that_ends_is_noticed(scene, browser):
    weir = with_page(scene, scene.mini())
    page = Page(browser, weir)
    weir.admin("SET http_listen_port = 0")
    page.wait_state("no answer")
    assert page.text("#message").startswith("No answer for ")
    weir.admin("SET http_listen_port = %d" % weir.settings["http_listen_port"])
    page.wait_state("active")
    assert page.text("#message") == ""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_phone(scene, browser, scheme):
    """Nothing is wider than a phone, in both colour schemes; graphs follow the width."""
    fake = scene.mini()
    weir = with_page(scene, {"alpha": "host=127.0.0.1 port=%d" % fake.port})
    weir.client(database="alpha").query("once")
    try:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True})
        page = Page(browser, weir)
        until(lambda: page.names() == ["alpha"], "the pool")
        width = "return Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll('#charts canvas')].map(c => c.clientWidth))"
        assert browser.execute_script(width) <= 390
        back = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
        assert (int(back.strip("rgb()").split(",")[0]) < 128) == (scheme == "dark")
        picture(browser, "phone-" + scheme)
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {"width": 1300, "height": 1400, "deviceScaleFactor": 1, "mobile": False})
        until(lambda: browser.execute_script("return document.querySelector('#charts canvas').clientWidth") > 390, "wider graphs")
        picture(browser, "wide-" + scheme)
        page.has_no_faults()
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_for_screen_readers(scene, browser):
    """Each control has a name, each table its headings, and the time shown is a state."""
    fake = scene.mini()
    weir = with_page(scene, {"alpha": "host=127.0.0.1 port=%d" % fake.port})
    weir.client(database="alpha").query("once")
    page = Page(browser, weir, "admin")
    until(lambda: page.names() == ["alpha"], "the pool")
    nameless = browser.execute_script("return [...document.querySelectorAll('button, a, input, select, textarea')].filter(e => !(e.getAttribute('aria-label') || "
                                      "e.innerText || e.textContent || e.labels?.length)).map(e => e.outerHTML)")
    assert nameless == []
    assert browser.execute_script("return [...document.querySelectorAll('thead th')].every(h => h.scope == 'col')")
    assert browser.find_element(By.CSS_SELECTOR, "#pools tbody th").get_attribute("scope") == "row"
    until(lambda: label(browser, 1).startswith("Waiting clients, now: waiting "), "a graph tells its values")
    five = browser.find_element(By.CSS_SELECTOR, "button[data-span='300']")
    five.click()
    assert five.get_attribute("aria-pressed") == "true"
    assert [len(browser.find_elements(By.CSS_SELECTOR, "h1")), len(browser.find_elements(By.CSS_SELECTOR, "main"))] == [1, 1]


def test_a_thousand_pools(scene, browser):
    """The page shows some rows, all of them on demand, and draws changed cells only."""
    fake = scene.mini()
    weir = with_page(scene, {"*": "host=127.0.0.1 port=%d" % fake.port}, max_client_conn=1100)
    clients = [weir.client(database="db%04d" % n) for n in range(1000)]
    page = Page(browser, weir)
    until(lambda: len(page.names()) == 200, "the first rows")
    assert page.text("#show-all") == "Show all 1000"
    page.click("#show-all")
    until(lambda: len(page.names()) == 1000, "all rows")
    changes = """const seen = new MutationObserver(() => {}), body = document.querySelector("#pools tbody");
        seen.observe(body, { subtree: true, childList: true, characterData: true, attributes: true });
        drawPools();
        const again = seen.takeRecords().length;
        pools[500].cl_active = 77;
        drawPools();
        return [again, seen.takeRecords().length];"""
    again, changed = browser.execute_script(changes)
    assert again == 0 < changed < 10
    assert len(clients) == 1000
    page.has_no_faults()
