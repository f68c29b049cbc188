// check.mjs REPORT.html [FOLDER] -- looks at a report in headless Chromium as its readers do: on a phone and on a screen, by day
// and in the dark, printed, by a screen reader.  With FOLDER, pictures of what was seen and the printed page stay there.
// Talks to the browser through a pipe (DevTools protocol); needs axe-core, and Node alone besides.
import { spawn, execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync, mkdtempSync, rmSync, existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

const [page, folder] = process.argv.slice(2);
const axe = readFileSync(createRequire(join(process.env.AXE_AT ?? process.cwd(), 'x.js')).resolve('axe-core/axe.min.js'), 'utf8');
const profile = mkdtempSync(join(tmpdir(), 'lab_browser_'));
const wrong = [];
let looked = 0;
const must = (good, what) => { looked++; if (!good) wrong.push(what); };

// ---- the browser ----
const browser = spawn(process.env.CHROMIUM ?? 'chromium', ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-dev-shm-usage',
    '--disable-background-networking', '--disable-component-update', '--hide-scrollbars', '--remote-debugging-pipe', `--user-data-dir=${profile}`,
    'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
const waiting = new Map(), heard = [];
let number = 0, rest = '', session;
browser.stdio[4].on('data', data => {
    const parts = (rest + data).split('\0');
    rest = parts.pop();
    for (const text of parts) {
        const message = JSON.parse(text);
        if (message.id === undefined) { heard.push(message); continue; }
        const { done, fail } = waiting.get(message.id);
        waiting.delete(message.id);
        message.error ? fail(new Error(JSON.stringify(message.error))) : done(message.result);
    }
});
const call = (method, params = {}) => new Promise((done, fail) => {
    waiting.set(++number, { done, fail });
    browser.stdio[3].write(JSON.stringify({ id: number, method, params, sessionId: session }) + '\0');
});
const pause = ms => new Promise(done => setTimeout(done, ms));
const evaluate = async expression => {
    const { result, exceptionDetails } = await call('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text);
    return result.value;
};
const end = code => { browser.kill('SIGKILL'); browser.on('exit', () => { rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }); process.exit(code); }); };
const timer = setTimeout(() => { console.log('browser: FAILED: no answer within six minutes'); end(1); }, 360000);

const look = async (width, scheme, media = '') => {
    await call('Emulation.setDeviceMetricsOverride', { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await call('Emulation.setEmulatedMedia', { media, features: [{ name: 'prefers-color-scheme', value: scheme }] });
};
const open = async () => {
    heard.length = 0;
    await call('Page.navigate', { url: 'file://' + resolve(page) });
    while (!heard.some(m => m.method === 'Page.loadEventFired')) await pause(20);
    await pause(200);
};
const unfold = open => evaluate(`document.querySelectorAll('details').forEach(d => d.open = ${open})`);

// ---- what is looked at ----
const overflow = `(() => {
    const width = document.documentElement.clientWidth, wide = [];
    if (document.documentElement.scrollWidth > width) wide.push('the page itself, ' + document.documentElement.scrollWidth);
    for (const e of document.querySelectorAll('body *'))
        if (!e.closest('.scroll > *') && !e.closest('pre > *') && e.getBoundingClientRect().right > width + 1) wide.push('<' + e.tagName + '> ' + e.textContent.trim().slice(0, 40));
    return wide.slice(0, 3).join('; ');
})()`;
const judge = `axe.run(document, { resultTypes: ['violations'] }).then(r => r.violations.map(v =>
    v.id + ': ' + v.help + ' at ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' [' + n.any.concat(n.all, n.none).map(c => c.message).join('; ') + ']').join(', ')).join('\\n'))`;
const words = `[...document.querySelectorAll('table')].flatMap(t => [...t.querySelectorAll('th,td')].flatMap(c => c.textContent.trim().split(/\\s+/))).filter(Boolean)`;

async function silence() {
    const requested = heard.filter(m => m.method === 'Network.requestWillBeSent').map(m => m.params.request.url);
    must(requested.length === 1, 'requests: ' + requested.slice(1));
    for (const m of heard) {
        if (m.method === 'Log.entryAdded') must(false, 'console: ' + m.params.entry.text);
        if (m.method === 'Runtime.exceptionThrown' || m.method === 'Runtime.consoleAPICalled') must(false, 'console: ' + JSON.stringify(m.params).slice(0, 200));
    }
}

async function screens() {
    for (const scheme of ['light', 'dark'])
        for (const width of [360, 1280]) {
            await look(width, scheme);
            const height = await evaluate('document.documentElement.scrollHeight');
            if (folder) {
                const { data } = await call('Page.captureScreenshot', { format: 'png', captureBeyondViewport: true, clip: { x: 0, y: 0, width, height: Math.min(height, 12000), scale: 1 } });
                writeFileSync(join(folder, `${scheme}-${width}.png`), Buffer.from(data, 'base64'));
            }
            for (const opened of [false, true]) {
                await unfold(opened);
                const wide = await evaluate(overflow), bad = await evaluate(judge), what = `${width} pixels, ${scheme}, ${opened ? 'unfolded' : 'as it opens'}`;
                must(!wide, `${what}: too wide: ${wide}`);
                must(!bad, `${what}: axe-core: ${bad}`);
            }
            await unfold(false);
        }
}

// What is folded on the screen is printed too, and every word of every table is on paper.
async function paper() {
    await look(1280, 'light');
    await call('Emulation.setEmulatedMedia', { media: '', features: [] });
    const { data } = await call('Page.printToPDF', { printBackground: false, paperWidth: 8.27, paperHeight: 11.69 });
    const pdf = join(folder ?? profile, 'printed.pdf');
    writeFileSync(pdf, Buffer.from(data, 'base64'));
    let printed;
    try { printed = execFileSync('pdftotext', ['-layout', pdf, '-'], { encoding: 'utf8', maxBuffer: 1 << 26 }); }
    catch { console.log('browser: SKIPPED: the printed page was not read: no pdftotext here'); return; }
    const captions = await evaluate(`[...document.querySelectorAll('.caption')].map(c => c.textContent.match(/^Table \\d+\\./)[0])`);
    must(captions.length > 0, 'the page has no table');
    for (const caption of captions) must(printed.includes(caption), `printed: ${caption} is missing`);
    const on_paper = printed.replace(/\s+/g, ''), missing = (await evaluate(words)).filter(w => w.length < 40 && !on_paper.includes(w));      // what is longer may be broken
    must(!missing.length, `printed: ${missing.length} words of tables are missing, such as ${missing.slice(0, 5).join(' ')}`);
}

try {
    const { targetId } = await call('Target.createTarget', { url: 'about:blank' });
    session = (await call('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Log', 'Network']) await call(domain + '.enable');
    await look(1280, 'light');
    await open();
    await silence();
    await evaluate(axe + ';0');
    await screens();
    await paper();
    for (const w of wrong) console.log('browser: FAILED: ' + w);
    if (!wrong.length) console.log(`browser: ${looked} looks at ${page}: no request, no complaint, nothing too wide, axe-core ${await evaluate('axe.version')} finds nothing, all tables printed`);
    clearTimeout(timer);
    end(wrong.length ? 1 : 0);
} catch (e) {
    console.log('browser: FAILED: ' + e.message);
    end(1);
}
