// Looks at the page in headless Chromium, as people would: in both themes, on a
// phone and on a desk. Usage: node look.mjs URL LOCKED MODULES [PICTURES]
// LOCKED is the URL of a page that asks for the token `open-sesame-of-the-page`.
// MODULES is the folder whose node_modules has playwright-core and axe-core;
// screenshots go to PICTURES, where it is given.

import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [url, locked, modules, pictures] = process.argv.slice(2);
const require = createRequire(join(resolve(modules), 'package.json'));
const { chromium } = require('playwright-core');
const axe = require.resolve('axe-core/axe.min.js');

const pages = {
  overview: '/',
  account: '/accounts/main',
  comparison: '/accounts/main/compare?from=30',
  snapshot: '/accounts/main/snapshots/40',
  snapshots: '/accounts/main/snapshots',
  records: '/accounts/main/records/qr_codes',
  record: '/accounts/main/records/qr_codes/1',
  run: '/accounts/sandbox/runs/1',
  partial: '/accounts/shop',
  empty: '/accounts/later',
  missing: '/accounts/missing',
};

const wrong = [];
const tell = (where, what) => wrong.push(`${where}: ${what}`);
const folder = mkdtempSync(join(tmpdir(), 'linkvault-browser-'));

async function look(context, where, path, expected) {
  const page = await context.newPage();
  page.on('console', (message) => {
    const foreseen = expected && message.text().includes(expected);
    if (['error', 'warning'].includes(message.type()) && !foreseen) tell(where, message.text());
  });
  page.on('pageerror', (error) => tell(where, String(error)));
  page.on('request', (request) => {
    const own = [url, locked].some((it) => request.url().startsWith(it + '/'));
    if (!own && !request.url().startsWith('data:')) {
      tell(where, `asks another origin: ${request.url()}`);
    }
  });
  await page.goto(path, { waitUntil: 'load' });
  const wide = await page.evaluate(() => {
    const root = document.documentElement;
    return root.scrollWidth > root.clientWidth ? [root.scrollWidth, root.clientWidth] : null;
  });
  if (wide) tell(where, `is ${wide[0]} wide in a window of ${wide[1]}`);
  // axe-core is put in by the browser's own tools: the page itself allows no script.
  await page.evaluate(`${require('fs').readFileSync(axe, 'utf8')}; undefined`);
  const found = await page.evaluate(async () => {
    for (const part of document.querySelectorAll('details')) part.open = true;
    return (await window.axe.run(document)).violations;
  });
  for (const it of found) {
    const nodes = it.nodes.slice(0, 3).map((node) => `${node.html}\n    ${node.failureSummary}`);
    tell(where, `axe ${it.id}: ${it.help}\n    ${nodes.join('\n    ')}`);
  }
  await page.evaluate(() => {
    for (const part of document.querySelectorAll('details')) part.open = false;
  });
  return page;
}

/** The name and kind of what has the focus. */
const focused = (page) =>
  page.evaluate(() => {
    const it = document.activeElement;
    const name = it.getAttribute('aria-label') || it.textContent || it.name || '';
    const visible = getComputedStyle(it).outlineStyle !== 'none';
    return { tag: it.tagName, id: it.id, name: name.trim(), href: it.getAttribute('href'), visible };
  });

/** Walks with the tabulator through the page; what was met, in order. */
async function walk(page, where) {
  const met = [];
  for (let nth = 0; nth < 60; nth += 1) {
    await page.keyboard.press('Tab');
    const it = await focused(page);
    if (it.tag === 'BODY' || it.tag === 'HTML') break;
    if (!it.visible) tell(where, `the focus on ${it.tag} ${it.name} cannot be seen`);
    met.push(it);
  }
  return met;
}

async function keys(context) {
  const page = await context.newPage();
  await page.goto(url + '/');
  const [skip, ...rest] = await walk(page, 'keyboard, overview');
  if (!skip?.name.startsWith('Skip to')) tell('keyboard', 'the first stop is not the skip link');
  for (const wanted of ['linkvault', 'main', 'Find']) {
    if (!rest.some((it) => it.name === wanted)) tell('keyboard', `no key leads to ${wanted}`);
  }
  await page.goto(url + '/');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  if ((await focused(page)).id !== 'main') tell('keyboard', 'the skip link does not lead to the content');
  await page.goto(url + '/accounts/main/compare');
  await page.focus('#from');
  await page.keyboard.press('End');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.waitForURL(/from=\d+&to=\d+/, { timeout: 10000 });
  if (!(await page.content()).includes('class="change"')) tell('keyboard', 'nothing was compared');
  await page.close();
}

/** Opens the page that asks for its token, with the keyboard alone. */
async function signIn(context, where, name) {
  const page = await look(context, where, locked + '/', '401');
  if (pictures) await page.screenshot({ path: join(pictures, `page-sign-in-${name}.png`) });
  await page.focus('#token');
  await page.keyboard.type('open-sesame-of-the-page');
  await page.keyboard.press('Enter');
  await page.waitForSelector('table.accounts', { timeout: 10000 }).catch(() => {
    tell(where, 'the token does not open the page');
  });
  await page.close();
}

try {
  for (const scheme of ['light', 'dark']) {
    for (const [size, width, height] of [['phone', 360, 740], ['desk', 1280, 900]]) {
      const context = await chromium.launchPersistentContext(join(folder, `${scheme}-${size}`), {
        executablePath: process.env.CHROMIUM || '/usr/bin/chromium',
        headless: true,
        args: [
          '--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run',
          '--disable-background-networking', '--disable-component-update', '--disable-sync',
        ],
        colorScheme: scheme,
        viewport: { width, height },
        bypassCSP: false,
      });
      context.setDefaultTimeout(30000);
      for (const [name, path] of Object.entries(pages)) {
        const where = `${name}, ${scheme}, ${size}`;
        const page = await look(context, where, url + path, name === 'missing' && '404');
        if (name === 'account') {
          const drawn = page.locator(size === 'desk' ? 'svg.wide' : 'svg.narrow');
          if ((await drawn.count()) !== 2) tell(where, 'there are not two charts');
          for (const chart of await drawn.all()) {
            if (!(await chart.isVisible())) tell(where, 'a chart cannot be seen');
            if ((await chart.locator('path.line').count()) !== 1) tell(where, 'a chart has no line');
            if ((await chart.locator('text').count()) < 5) tell(where, 'a chart has no axes');
          }
        }
        if (pictures) {
          const path = join(pictures, `page-${name}-${scheme}-${size}.png`);
          await page.screenshot({ path });
        }
        await page.close();
      }
      await signIn(context, `sign in, ${scheme}, ${size}`, `${scheme}-${size}`);
      if (size === 'desk') await keys(context);
      await context.close();
    }
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
for (const line of wrong) console.log(line);
console.log(`${Object.keys(pages).length + 1} pages seen, ${wrong.length} things wrong`);
process.exit(wrong.length > 0 ? 1 : 0);
