#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clicks through the pages of plans in headless Chromium, and keeps screenshots.

usage: check_pages.py TESSERA_CLI OUTPUT_FOLDER

Needs Debian's chromium, chromium-driver and python3-selenium (tools/setup.sh --pages).
"""
import pathlib
import subprocess
import sys

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

HERE = pathlib.Path(__file__).resolve().parent


def browser() -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     "--window-size=1320,1500"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)


def write(cli: str, folder: pathlib.Path, name: str, *arguments: str) -> pathlib.Path:
    page = folder / f"{name}.html"
    subprocess.run([cli, "plan", *arguments, "--html", str(page)], check=True, stdout=subprocess.DEVNULL)
    return page


def shown(driver) -> list[str]:
    return [d.text for d in driver.find_elements(By.CSS_SELECTOR, ".detail") if d.is_displayed()]


def check_one_plan(driver, page: pathlib.Path) -> None:
    driver.get(page.as_uri())
    blocks = driver.find_elements(By.CSS_SELECTOR, ".block")
    rows = driver.find_elements(By.CSS_SELECTOR, ".steps tbody tr")
    assert len(blocks) == len(rows) > 1, (len(blocks), len(rows))
    assert shown(driver) == [], "nothing is selected at first"
    # A block selects itself, its row and its detail; a row the same.
    blocks[0].click()
    (detail,) = shown(driver)
    assert "what to change" in detail and "bytes per device" in detail, detail
    assert "on" in rows[0].get_attribute("class").split(), "the row of the clicked block"
    rows[1].click()
    assert len(shown(driver)) == 1 and shown(driver)[0] != detail
    assert "on" not in (rows[0].get_attribute("class") or "").split()
    # A kind that is switched off is seen nowhere, and comes back.
    switch = driver.find_elements(By.CSS_SELECTOR, ".switch")[0]
    kind = switch.get_attribute("data-switch")
    of_kind = [b for b in blocks if b.get_attribute("data-op") == kind]
    assert of_kind and all(b.is_displayed() for b in of_kind)
    switch.click()
    assert not any(b.is_displayed() for b in of_kind) and switch.get_attribute("aria-pressed") == "false"
    switch.click()
    assert all(b.is_displayed() for b in of_kind)
    # A click on a head sorts, another one turns the order.
    head = driver.find_elements(By.CSS_SELECTOR, ".steps th")[4]
    bytes_of = lambda: [int(r.find_elements(By.TAG_NAME, "td")[4].get_attribute("data-sort"))
                        for r in driver.find_elements(By.CSS_SELECTOR, ".steps tbody tr")]
    head.click()
    assert bytes_of() == sorted(bytes_of(), reverse=True)
    head.click()
    assert bytes_of() == sorted(bytes_of())
    blocks[-1].click()


def check_two_plans(driver, page: pathlib.Path) -> None:
    driver.get(page.as_uri())
    sections = [h.text for h in driver.find_elements(By.TAG_NAME, "h2")]
    for heading in ("Before", "After", "What has changed", "Timeline before", "Timeline after"):
        assert heading in sections, (heading, sections)
    total = driver.find_element(By.CSS_SELECTOR, ".changes tfoot .n[class*=less], .changes tfoot .n[class*=more]")
    before, after = [int(c.get_attribute("data-sort")) for c in
                     driver.find_elements(By.CSS_SELECTOR, ".changes tfoot td.n")[:2]]
    assert int(total.get_attribute("data-sort")) == after - before != 0
    # Blocks of both plans have details of their own.
    for prefix in ("a", "b"):
        driver.find_element(By.CSS_SELECTOR, f".block[data-step={prefix}0]").click()
        assert len(shown(driver)) == 1


def check_quiet(driver) -> None:
    log = driver.get_log("browser")
    assert log == [], log
    loaded = driver.execute_script("return performance.getEntriesByType('resource').map(e => e.name)")
    assert loaded == [], f"the page fetches {loaded}"
    wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"the page is {wide} pixels wider than the window"


def main() -> int:
    cli, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    after, before = str(HERE / "training_step.mlir"), str(HERE / "training_step_before.mlir")
    driver = browser()
    try:
        for name, check, arguments in (("plan_page", check_one_plan, (after,)),
                                       ("compare_page", check_two_plans, (after, "--compare", before))):
            page = write(cli, folder, name, *arguments)
            for width in (1320, 480):
                driver.set_window_size(width, 1700)
                check(driver, page)
                check_quiet(driver)
                driver.execute_script("window.scrollTo(0, 0)")
                driver.save_screenshot(str(folder / f"{name}_{width}.png"))
            print(f"{name}: clicked through at 1320 and 480 pixels")
    finally:
        driver.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
