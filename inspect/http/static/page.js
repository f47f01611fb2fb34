// The page shows what the stream of events says. Nothing of it is ever made markup: text goes into text nodes.

import {drawGraph, drawMargins, drawGrants, hue, label, many, number} from './draw.js';

const $ = id => document.getElementById(id);
const lines = new Map(); // by id
let config = {root: '…'}, head = null, client = null;
let skew = 0;            // of this clock against the service's
let heard = Date.now();  // when the stream last said something
let lost = 0;            // when it broke off
let limit = 50;          // how many lines are drawn

const now = () => Date.now() + skew;

function h(tag, props, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(props || {})) {
    if (v === undefined || v === false || v === null) continue;
    if (k === 'class') e.className = v;
    else if (k === 'hue') e.style.setProperty('--hue', v);
    else if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else e.setAttribute(k, v === true ? '' : v);
  }
  e.append(...children.filter(c => c !== null && c !== undefined && c !== false && c !== ''));
  return e;
}

// put changes a text only if it is another one: what reads the page aloud is not told the same again.
function put(e, text) { if (e.textContent !== text) e.textContent = text; }
function say(text) { put($('live'), text); }

function length(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return s + 's';
  const m = Math.floor(s / 60), hours = Math.floor(m / 60), two = n => String(n).padStart(2, '0');
  if (m < 60) return m + 'm ' + two(s % 60) + 's';
  if (hours < 48) return hours + 'h ' + two(m % 60) + 'm';
  return Math.floor(hours / 24) + 'd ' + (hours % 24) + 'h';
}
const seconds = ms => ms < 10000 ? (ms / 1000).toFixed(1) + ' s' : Math.round(ms / 1000) + ' s';
const clock = at => new Date(at - skew).toLocaleTimeString();

// ago is a text that says how long something has lasted, and grows.
function ago(at, classes, before, after) {
  const e = h('time', {class: classes, datetime: new Date(at).toISOString(), title: 'since ' + new Date(at - skew).toLocaleString(), 'data-at': at, 'data-before': before, 'data-after': after});
  age(e);
  return e;
}
function age(e) {
  const ms = now() - Number(e.dataset.at);
  put(e, (e.dataset.before || '') + length(ms) + (e.dataset.after || ''));
  if (e.classList.contains('since')) e.classList.toggle('long', ms > 300000 && e.dataset.waits === '1');
}

// reconcile makes the children of an element those of a list, and touches only what has changed.
function reconcile(parent, items, key, make, update) {
  const wanted = new Set(items.map(i => String(key(i)))), have = new Map();
  for (const c of [...parent.children]) if (wanted.has(c.dataset.key)) have.set(c.dataset.key, c); else c.remove();
  const focused = document.activeElement;
  let at = parent.firstElementChild;
  for (const item of items) {
    const k = String(key(item));
    let e = have.get(k);
    if (!e) { e = make(item); e.dataset.key = k; }
    update(e, item);
    if (e === at) at = at.nextElementSibling; else parent.insertBefore(e, at);
  }
  if (focused && focused !== document.activeElement && parent.contains(focused)) focused.focus({preventScroll: true});
}

// Participants

function partRow(line, p, holds, place) {
  const what = h('span', {class: 'name'}, h('b', {}, label(p)));
  if (p.data) what.title = p.name;
  if (p.error) what.append(h('span', {class: 'chip warn'}, 'cannot be read: ' + p.error));
  if (p.length) what.append(h('span', {class: 'chip'}, many(p.length, 'byte of data', 'bytes of data')));
  if (line.kind === 'read-write lock') what.append(h('span', {class: 'chip'}, p.reader ? 'reads' : 'writes'));
  if (p.revoked) what.append(h('span', {class: 'chip warn'}, 'asked to release'));
  if (p.away) what.append(h('span', {class: 'chip bad', title: 'Unless its process reconnects, its session expires.'}, 'no connection'));
  if (p.heard) what.append(h('span', {class: 'chip bad'}, ago(p.heard, '', 'no request for ')));
  if (p.library) what.append(h('span', {class: 'chip'}, p.library));
  if (client && p.session && p.session === client.session) what.append(h('span', {class: 'chip own'}, 'this client'));
  if (p.session) what.append(' ', h('button', {type: 'button', class: 'link mono', onclick: () => filterBy(p.session), title: 'Show the lines of this session'}, p.session));
  const grant = holds && (line.grants || []).findLast(g => g.who.key === p.key && g.who.name === p.name && !g.ended && !g.before);
  const since = grant ? ago(grant.seen, 'since', 'for ') : p.since ? ago(p.since, 'since', holds ? 'joined ' : '', holds ? ' ago' : '') : h('span', {});
  if (p.since && !holds) { since.dataset.waits = '1'; age(since); }
  const row = h('li', {class: 'part' + (holds ? ' holds' : '')},
    h('span', {class: 'place'}, place), h('span', {class: 'dot', hue: hue(p.session || p.name), 'aria-hidden': 'true'}), what, since);
  if (config.delete && p.key !== '0') {
    row.append(h('button', {type: 'button', class: 'link danger', 'aria-label': 'Delete the node of ' + label(p), onclick: () => ask(line, p, holds)}, 'delete'));
  }
  return row;
}

const placeOf = (line, p, i, holds) => holds ? (line.kind === 'members' ? 'member' : 'holds') : line.kind === 'queue' ? 'item ' + (i + 1) : 'waits ' + (i + 1);

function fill(list, line, parts, holds, first, fresh) {
  const was = new Map([...list.children].map(e => [e.dataset.key, e]));
  const items = parts.map((p, i) => ({p, i, key: p.key === '0' ? 'n' + p.name : p.key}));
  reconcile(list, items, x => x.key, x => {
    const e = partRow(line, x.p, holds, placeOf(line, x.p, x.i + first, holds));
    e.part = JSON.stringify(x.p);
    if (fresh && !was.has(x.key)) e.classList.add('fresh');
    return e;
  }, (e, x) => {
    const text = JSON.stringify(x.p);
    if (e.part !== text) {
      const next = partRow(line, x.p, holds, '');
      e.part = text;
      e.replaceChildren(...next.childNodes);
    }
    put(e.firstChild, placeOf(line, x.p, x.i + first, holds));
  });
}

// Lines

const few = 3;

function makeLine(line) {
  const card = h('li', {class: 'line', id: 'line-' + line.id},
    h('article', {'aria-labelledby': 'path-' + line.id},
      h('div', {class: 'head'}, h('h3', {id: 'path-' + line.id}), h('span', {class: 'chip kind'}), h('span', {class: 'chip bad dead', hidden: true}, 'possible deadlock'), h('span', {class: 'sum'})),
      h('ul', {class: 'parts holders', 'aria-label': 'holders'}),
      h('p', {class: 'none nobody', hidden: true}),
      h('ol', {class: 'parts waiters', 'aria-label': 'waiting, the next one first'}),
      h('details', {class: 'rest', hidden: true}, h('summary', {}), h('ol', {class: 'parts', 'aria-label': 'waiting, after those'}), h('p', {class: 'none unsent', hidden: true})),
      h('ul', {class: 'notes', hidden: true, 'aria-label': 'problems'}),
      h('div', {class: 'stripbox'}),
      h('details', {class: 'past', hidden: true}, h('summary', {}, 'Last grants'), h('ol', {class: 'grants'}))));
  for (const d of card.querySelectorAll('details')) d.addEventListener('toggle', () => updateLine(card, lines.get(line.id), true));
  return card;
}

// inCircles are the lines of possible deadlocks.
function inCircles() {
  return new Set((head?.circles || []).flatMap(c => c.edges.map(e => e.line)));
}

function updateLine(card, line, again, dead = inCircles().has(line?.id)) {
  const own = client?.session;
  if (!line || card.line === line && card.isDead === dead && card.own === own && !again) return;
  const fresh = card.line && card.line !== line;
  if (card.own !== own) for (const e of card.querySelectorAll('.part')) e.part = '';
  Object.assign(card, {line, isDead: dead, own});
  const q = s => card.querySelector(s), holders = line.holders || [], waiting = line.waiting || [];
  card.classList.toggle('dead', dead);
  card.classList.toggle('idle', !!line.free);
  q('.dead').hidden = !dead;
  put(q('h3'), line.path);
  put(q('.kind'), line.kind);
  const sum = [];
  if (line.max) sum.push(number(line.held) + ' of ' + number(line.max) + ' held');
  else if (line.held > 1) sum.push(number(line.held) + (line.kind === 'members' ? ' members' : ' hold'));
  if (line.waits) sum.push(line.kind === 'queue' ? many(line.waits, 'item', 'items') : many(line.waits, 'waits', 'wait'));
  if (line.free) q('.sum').replaceChildren(ago(line.free, '', 'free for '));
  else put(q('.sum'), sum.join(' · '));
  const longHolders = line.held > few && line.kind !== 'semaphore' ? holders.slice(0, few) : holders.slice(0, 8);
  fill(q('.holders'), line, longHolders, true, 0, fresh);
  const nobody = q('.nobody');
  nobody.hidden = line.free || longHolders.length === line.held && line.held > 0 || line.kind === 'queue';
  put(nobody, line.held ? many(line.held - longHolders.length, 'more holds', 'more hold') : 'no holder');
  fill(q('.waiters'), line, waiting.slice(0, few), false, 0, fresh);
  const rest = q('.rest');
  rest.hidden = line.waits <= few;
  if (!rest.hidden) {
    put(rest.firstChild, line.kind === 'queue' ? many(line.waits - few, 'more item', 'more items') : many(line.waits - few, 'more waits', 'more wait'));
    fill(rest.children[1], line, rest.open ? waiting.slice(few) : [], false, few, fresh);
    const unsent = q('.unsent');
    unsent.hidden = line.waits <= waiting.length;
    put(unsent, 'and ' + many(line.waits - waiting.length, 'more, which is not listed', 'more, which are not listed'));
  }
  const notes = [...(line.notes || [])];
  if (line.foreign) notes.push(many(line.foreign, 'foreign child', 'foreign children') + ': ' + (line.names || []).join(', ') + (line.foreign > (line.names || []).length ? ', …' : ''));
  q('.notes').hidden = !notes.length;
  q('.notes').replaceChildren(...notes.map(n => h('li', {}, n)));
  const grants = line.grants || [], past = q('.past');
  past.hidden = !grants.length;
  q('.stripbox').replaceChildren(...(grants.length > 1 ? [drawGrants(grants, now())] : []));
  put(past.firstChild, grants.length === 1 ? '1 grant seen' : 'Last ' + grants.length + ' grants seen');
  past.lastChild.replaceChildren(...(past.open ? [...grants].reverse().map(g => h('li', {},
    h('span', {class: 'quiet num'}, g.before ? 'before' : clock(g.seen)),
    h('span', {class: 'dot', hue: hue(g.who.session || g.who.name), 'aria-hidden': 'true'}),
    h('span', {class: 'name', title: g.who.session}, label(g.who)),
    g.ended ? h('span', {class: 'num'}, (g.before ? '> ' : '') + seconds(g.ended - g.seen)) : h('span', {class: 'num'}, 'holds it'))) : []));
}

const oldest = parts => { let t = Infinity; for (const p of parts || []) if (p.since && p.since < t) t = p.since; return t; };
const orders = {
  wait: (a, b) => oldest(a.waiting) - oldest(b.waiting) || 0,
  many: (a, b) => b.waits - a.waits,
  held: (a, b) => oldest(a.holders) - oldest(b.holders) || 0,
  path: () => 0,
};

function matches(line, words) {
  if (!words.length) return true;
  line.text ??= [line.path, line.kind, ...[...(line.holders || []), ...(line.waiting || [])].map(p => [p.name, p.data, p.session, p.library, p.error].join(' '))].join('\n').toLowerCase();
  return words.every(w => line.text.includes(w));
}

function drawLines() {
  const words = $('filter').value.toLowerCase().split(/\s+/).filter(Boolean), only = $('only').checked;
  const all = [...lines.values()].filter(l => (!only || l.waits) && matches(l, words));
  const order = orders[$('sort').value] || orders.wait;
  const dead = inCircles();
  all.sort((a, b) => dead.has(b.id) - dead.has(a.id) || (!!a.free - !!b.free) || order(a, b) || (b.free || 0) - (a.free || 0) || (a.path < b.path ? -1 : a.path > b.path ? 1 : a.id - b.id));
  reconcile($('lines'), all.slice(0, limit), l => l.id, makeLine, (e, l) => updateLine(e, l, false, dead.has(l.id)));
  const more = all.length - limit;
  $('more').hidden = more <= 0;
  put($('more'), 'Show ' + Math.min(50, more) + ' of ' + number(more) + ' more');
  put($('count'), !head || head.loading ? '' :
    all.length === lines.size ? (lines.size ? '' : 'No holders or waiters here.') :
      number(all.length) + ' of ' + many(lines.size, 'line', 'lines'));
}

// What is above and beside the lines

function drawHead() {
  const loading = !head || head.loading;
  let longest = Infinity;
  for (const l of lines.values()) if (l.kind !== 'queue') longest = Math.min(longest, oldest(l.waiting));
  put($('n-lines'), loading ? '–' : number(head.lines));
  put($('n-lines').previousElementSibling, head?.lines === 1 ? 'line' : 'lines');
  put($('n-held'), loading ? '–' : number(head.held));
  put($('n-waiting'), loading ? '–' : number(head.waiting));
  put($('n-longest'), loading || longest === Infinity ? '–' : length(now() - longest));
  const circles = head?.circles || [];
  put($('n-circles'), loading ? '–' : number(circles.length));
  put($('n-circles').previousElementSibling, circles.length === 1 ? 'possible deadlock' : 'possible deadlocks');
  $('tile-circles').classList.toggle('bad', circles.length > 0);
  $('circles').hidden = !circles.length;
  const text = JSON.stringify(circles);
  if (drawHead.circles !== text) {
    if (circles.length && !loading) say(circles.length === 1 ? 'There may be a deadlock.' : 'There may be ' + circles.length + ' deadlocks.');
    drawHead.circles = text;
    $('circle-list').replaceChildren(...circles.map(c => h('li', {},
      h('p', {}, 'These sessions wait for each other. It is a deadlock if each holds and waits in the same thread of work; a process that locks in several goroutines or threads can show this without a deadlock:'),
      h('ol', {}, ...c.edges.map(e => h('li', {}, h('b', {}, label(e.waiter)), ' waits at ',
        e.line ? h('a', {class: 'mono', href: '#line-' + e.line}, e.path) : h('code', {}, e.path), ' for ', h('b', {}, label(e.ahead))))),
      c.more ? h('p', {class: 'quiet'}, 'and ' + c.more + ' more') : null)));
  }
  const missing = [];
  if (head?.unsent) missing.push(many(head.unsent, 'more line, which has waited less, is not listed.', 'more lines, which have waited less, are not listed.'));
  if (head?.stopped) missing.push('The list is incomplete: ' + head.stopped + '.');
  if (head?.unreadableCount) missing.push(many(head.unreadableCount, 'node', 'nodes') + ' cannot be read with this client’s permissions: ' + head.unreadable.join(', ') + (head.unreadableCount > head.unreadable.length ? ', …' : ''));
  if (head?.untold && lines.size) missing.push('A participant whose process hangs or has no connection is marked only by servers that list their connections: ' + head.untold + '.');
  $('missing').hidden = !missing.length;
  if (drawHead.missing !== missing.join('\n')) $('missing').replaceChildren(...missing.map(m => h('p', {}, m)));
  drawHead.missing = missing.join('\n');
  if (head) put($('foot'), 'Grants are those seen since ' + clock(head.since) + ', when the page was opened first; it watches until it has had no viewer for ten minutes. At most 20 of each line are listed. One shorter than a tenth of a second may be missing. Waiting times are by the servers’ clock.' + (config.delete ? '' : ' Read-only.'));
}

function drawGraphBox() {
  const {drawing, left} = drawGraph([...lines.values()], head?.circles, $('graph').clientWidth || $('client').clientWidth);
  $('graph-box').hidden = !drawing;
  if (!drawing) return;
  $('graph').replaceChildren(drawing);
  put($('graph-note'), left ? many(left, 'more line with waiters is not drawn.', 'more lines with waiters are not drawn.') : '');
}

function drawSessions() {
  const all = new Map();
  const add = (p, what) => {
    if (!p.session) return;
    let s = all.get(p.session);
    if (!s) all.set(p.session, s = {session: p.session, part: p, holds: 0, waits: 0});
    s[what]++;
  };
  let unlisted = 0;
  for (const l of lines.values()) {
    for (const p of l.holders || []) add(p, 'holds');
    for (const p of l.waiting || []) add(p, 'waits');
    unlisted += Math.max(0, l.waits - (l.waiting || []).length) + Math.max(0, l.held - (l.holders || []).length);
  }
  const sorted = [...all.values()].sort((a, b) => b.holds + b.waits - a.holds - a.waits || b.holds - a.holds || (a.session < b.session ? -1 : 1));
  reconcile($('sessions'), sorted.slice(0, 12), s => s.session, () => h('tr', {}), (row, s) => {
    const text = JSON.stringify([s, client?.session]);
    if (row.text === text) return;
    row.text = text;
    row.replaceChildren(h('td', {}, h('div', {class: 'who'}, h('span', {class: 'dot', hue: hue(s.session), 'aria-hidden': 'true'}),
      h('span', {class: 'name'}, label(s.part), ' ', client?.session === s.session ? h('span', {class: 'chip own'}, 'this client') : '', ' ',
        h('button', {type: 'button', class: 'link mono', onclick: () => filterBy(s.session)}, s.session)))),
    h('td', {class: 'num'}, number(s.holds)), h('td', {class: 'num'}, number(s.waits)));
  });
  put($('sessions-note'), !sorted.length ? 'No session holds or waits.' :
    (sorted.length > 12 ? number(sorted.length - 12) + ' more. ' : '') + (unlisted ? many(unlisted, 'participant that is not listed is not counted.', 'participants that are not listed are not counted.') : ''));
}

function drawClient() {
  if (!client) return;
  const c = client, facts = [];
  const fact = (name, ...value) => facts.push(h('dt', {}, name), h('dd', {}, ...value));
  fact('state', c.state + (c.epoch > 1 ? ', session ' + c.epoch : ''), c.since ? h('span', {class: 'quiet'}, ' since ' + clock(c.since)) : '');
  if (c.server) fact('server', h('span', {class: 'mono'}, c.server));
  if (c.session) fact('session', h('button', {type: 'button', class: 'link mono', onclick: () => filterBy(c.session)}, c.session));
  fact('timeout', seconds(c.timeout));
  fact('rule', c.rule + (c.standalone ? ' (standalone)' : ''), h('span', {class: 'quiet'}, c.heartbeat ? ', a write every ' + seconds(c.heartbeat) + ' while it holds' : ', margin ' + seconds(c.bound + c.margin)));
  if (c.refused) fact('holds', h('span', {class: 'danger'}, c.refused));
  else fact('holds', number(c.holds));
  fact('requests', number(c.inFlight) + ' in flight, ' + number(c.queued) + ' queued');
  if (c.connections > 1) fact('connections', number(c.connections));
  if (c.cleanups) fact('clean-ups', many(c.cleanups, 'node is not deleted yet', 'nodes are not deleted yet'));
  if (c.trouble) fact('trouble', c.trouble);
  $('client').replaceChildren(...facts);
  const held = (c.margins || []).filter(m => m >= 0);
  $('margins').replaceChildren(...(held.length ? [drawMargins(c.margins, c.steady),
    h('p', {class: 'small quiet'}, 'Holds are certain for ' + seconds(held[held.length - 1]) + '; least in two minutes ' + seconds(Math.min(...held)) + (c.steady ? ', ' + seconds(c.steady) + ' while servers reply' : '') + '.')] : []));
  const changes = c.changes || [];
  $('changes-box').hidden = !changes.length;
  put($('changes-n'), '(' + changes.length + ')');
  $('changes').replaceChildren(...[...changes].reverse().map(x => h('li', {}, h('span', {class: 'quiet num'}, clock(x.at) + ' '), x.state + ' ', x.epoch ? h('span', {class: 'quiet'}, 'session ' + x.epoch) : '', x.why ? ': ' + x.why : '')));
}

// drawState says whether what is shown is what is.
function drawState() {
  const banner = $('banner'), silent = !lost && Date.now() - heard > 40000;
  let text = '', bad = false, pill = 'live', state = 'good';
  if (lost || silent) {
    const since = new Date(lost || heard).toLocaleTimeString();
    text = 'This page has received nothing from its service since ' + since + '. ' + (head ? 'The state below is from then. ' : '') + 'It is reconnecting.';
    bad = true; pill = 'page disconnected'; state = 'bad';
  } else if (client && !client.fine) {
    text = 'No connection to ZooKeeper' + (client.away || client.since ? ' since ' + clock(client.away || client.since) : '') + ' (' + client.state + '). ' + (client.trouble ? client.trouble + '. ' : '') + (head ? 'The state below is from then.' : '');
    bad = true; pill = client.state; state = 'bad';
  } else if (head?.problem) {
    text = config.root + ': ' + head.problem; pill = 'nothing to show'; state = 'wait';
  } else if (!head || head.loading) {
    pill = head?.loading > 1 ? 'reading: ' + many(head.loading - 1, 'node', 'nodes') : 'reading'; state = 'wait';
  }
  document.body.classList.toggle('stale', bad);
  put(banner, text);
  banner.hidden = !text;
  banner.classList.toggle('bad', bad);
  put($('pill'), pill);
  $('pill').dataset.state = state;
  if (drawState.was === 'bad' && state === 'good') say('Connected again.');
  drawState.was = state;
}

let due = 0;
function draw(what) {
  draw.client ||= what === 'client';
  draw.rest ||= what !== 'client';
  if (!due) due = requestAnimationFrame(() => {
    due = 0;
    const {client: c, rest} = draw;
    draw.client = draw.rest = false;
    put($('root'), config.root);
    if (c || rest) drawClient();
    if (rest) { drawHead(); drawLines(); drawGraphBox(); drawSessions(); }
    drawState();
  });
}

// Filter

function filterBy(text) {
  $('filter').value = text;
  limit = 50;
  draw();
  $('lines-head').focus();
}
$('tools').addEventListener('submit', e => e.preventDefault());
for (const id of ['filter', 'sort', 'only']) $(id).addEventListener('input', () => { limit = 50; draw(); });
new ResizeObserver(() => draw()).observe($('graph'));
$('more').addEventListener('click', () => { limit += 50; draw(); });
document.addEventListener('keydown', e => {
  if (e.key === '/' && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && !$('ask').open) {
    e.preventDefault();
    $('filter').select();
  }
});

// Deletion

function ask(line, p, holds) {
  const dialog = $('ask');
  put($('ask-what'), label(p) + (holds ? ' holds ' : ' waits for ') + line.path + (p.session ? ' (session ' + p.session + ')' : ''));
  put($('ask-text'), holds ?
    'The next waiter is granted immediately. The holder is notified a moment later, if its process runs: until then both may work.' :
    'It loses its place in the line. If its process is alive, it rejoins at the end or stops waiting.');
  dialog.returnValue = 'no';
  dialog.onclose = async () => {
    if (dialog.returnValue !== 'yes') return;
    try {
      const answer = await fetch('delete', {method: 'POST', headers: {'Content-Type': 'application/json', 'X-Curator-Token': config.token}, body: JSON.stringify({line: line.id, key: p.key})});
      say(answer.ok ? 'The node was deleted.' : 'Not deleted: ' + (await answer.text()).trim());
      if (!answer.ok) alertOnce('Not deleted: ' + ($('live').textContent).replace(/^Not deleted: /, ''));
    } catch {
      alertOnce('Outcome unknown: the page’s service did not reply. The node may be deleted.');
    }
  };
  dialog.showModal();
}
function alertOnce(text) {
  const e = h('p', {class: 'banner bad'}, text, ' ', h('button', {type: 'button', class: 'link', onclick: () => e.remove()}, 'dismiss'));
  $('banner').after(e);
}

// The stream

function take(news) {
  skew = news.now - Date.now();
  heard = Date.now();
  lost = 0;
  if (news.config) config = news.config;
  if (news.whole) { lines.clear(); head = null; }
  if (news.head) head = news.head;
  if (news.client) client = news.client;
  for (const l of news.lines || []) lines.set(l.id, l);
  for (const id of news.gone || []) lines.delete(id);
  draw(news.whole || news.head || news.lines || news.gone ? 'all' : 'client');
}

function listen() {
  const stream = new EventSource('events');
  stream.onmessage = e => take(JSON.parse(e.data));
  stream.onerror = () => {
    lost ||= Date.now();
    draw('client');
    if (stream.readyState === EventSource.CLOSED) setTimeout(listen, 5000); // refused: it does not come back by itself
  };
}
listen();

setInterval(() => {
  for (const e of document.querySelectorAll('time[data-at]')) age(e);
  if (head) drawHead();
  drawState();
}, 1000);
