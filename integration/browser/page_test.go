package browser_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-curator/curator/framework"
	inspecthttp "github.com/go-curator/curator/inspect/http"
	"github.com/go-curator/curator/integration/internal/kit"
	"github.com/go-curator/curator/recipes/mutex"
	"github.com/go-curator/curator/recipes/rwlock"
	"github.com/go-curator/curator/recipes/semaphore"
)

// shop creates many lines: locks of every kind, a deadlock, and another library's participants.
func shop(t *testing.T, s *stage) {
	crew := map[string]*framework.Client{}
	for _, who := range []string{"billing-1", "billing-2", "shipping-1", "stock-1", "stock-2", "report", "cron-5d41",
		"cron-0cc1", "cron-92eb"} {
		crew[who] = s.connect(t)
	}
	lock := func(who, path string) {
		m := mutex.New(crew[who], path, mutex.WithNodeData([]byte(who)))
		before := s.children(path)
		if before == 0 {
			_, err := m.Acquire(t.Context())
			require.NoError(t, err)
			return
		}
		later(t, func(ctx context.Context) { _, _ = m.Acquire(ctx) })
		eventually(t, who+" waits at "+path, func() bool { return s.children(path) > before })
	}
	lock("billing-1", "/shop/locks/orders/4711")
	lock("shipping-1", "/shop/locks/orders/4711")
	lock("report", "/shop/locks/orders/4711")
	lock("stock-1", "/shop/locks/stock/berlin")
	lock("stock-2", "/shop/locks/stock/hamburg")
	lock("stock-1", "/shop/locks/stock/hamburg")
	lock("stock-2", "/shop/locks/stock/berlin")
	for _, who := range []string{"billing-1", "billing-2"} {
		_, err := semaphore.New(crew[who], "/shop/printers", 2, semaphore.WithLeaseData([]byte(who))).Acquire(t.Context(), 1)
		require.NoError(t, err)
	}
	rw := rwlock.New(crew["report"], "/shop/prices", rwlock.WithNodeData([]byte("report")))
	_, err := rw.ReadLock().Acquire(t.Context())
	require.NoError(t, err)
	for i, name := range []string{"5d41402abc4b2a76b9719d911017c592", "0cc175b9c0f1b6a831c399e269772661",
		"92eb5ffee6ae2fec3ad71c777531578f"} {
		_, err := crew["cron-"+name[:4]].Create().CreatingParentContainersIfNeeded().WithMode(framework.Ephemeral).ForPath(
			t.Context(), fmt.Sprintf("/shop/kazoo/nightly/%s__lock__%010d", name, i), []byte("cron-"+name[:4]))
		require.NoError(t, err)
	}
}

// Pictures of every kind of line: by day, by night, on a telephone.
func TestPictures(t *testing.T) {
	s := newStage(t)
	shop(t, s)
	v := newViewer(t, 1280, 1500)
	v.dark(false)
	v.open(s.web.URL + "/")
	v.has("/shop/locks/stock/berlin", "These sessions wait for each other", "kazoo", "2 hold", "reads", "0 in flight")
	v.until("the lines of the deadlock come first", `(() => {
		const dead = [...document.querySelectorAll('.line')].map(e => e.classList.contains('dead'));
		return dead[0] && dead[1] && !dead.slice(2).includes(true);
	})()`)
	light := ask[string](v, "getComputedStyle(document.body).backgroundColor")
	v.shoot("light")
	v.dark(true)
	v.until("the page is dark", "getComputedStyle(document.body).backgroundColor !== "+quoted(light))
	v.shoot("dark")
	v.fine()
	narrow := newViewer(t, 320, 1600)
	narrow.dark(false)
	narrow.open(s.web.URL + "/")
	narrow.has("/shop/locks/stock/berlin", "These sessions wait for each other")
	const beyond = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
	assert.LessOrEqual(t, ask[int](narrow, beyond), 0, "nothing is cut off")
	narrow.do(chromedp.EmulateViewport(390, 1600))
	assert.LessOrEqual(t, ask[int](narrow, beyond), 0, "nothing is cut off")
	narrow.until("the graph fits, and can be read", `(() => {
		const box = document.querySelector('#graph'), drawing = box.querySelector('svg');
		return box.scrollWidth <= box.clientWidth && drawing.getBoundingClientRect().width > 0.95 * drawing.viewBox.baseVal.width;
	})()`)
	narrow.shoot("narrow")
	ask[bool](narrow, `(() => { document.querySelector('#graph-box').scrollIntoView(); return true; })()`)
	narrow.shoot("narrow-graph")
	narrow.fine()
}

// A holder whose session has no connection does not look like one that works.
func TestAHolderWithoutAConnection(t *testing.T) {
	s := newStage(t)
	var gone atomic.Bool
	holder, err := framework.New(s.server.Addr(), framework.WithSessionTimeout(40*time.Second),
		framework.WithDialer(func(ctx context.Context, network, addr string) (net.Conn, error) {
			if gone.Load() {
				return nil, errors.New("no route to host")
			}
			return s.server.Dial(ctx, network, addr)
		}))
	require.NoError(t, err)
	t.Cleanup(func() { gone.Store(false); _ = holder.Close() })
	_, err = mutex.New(holder, "/locks/held", mutex.WithNodeData([]byte("gone"))).Acquire(t.Context())
	require.NoError(t, err)
	session, err := holder.Session(t.Context())
	require.NoError(t, err)
	v := newViewer(t, 1000, 700)
	v.open(s.web.URL + "/")
	v.has("/locks/held")
	assert.NotContains(t, v.text(), "no connection")
	gone.Store(true)
	s.server.Cut(session.ID())
	v.has("no connection")
	v.shoot("gone")
	v.fine()
}

// A change is on the page within a second, without a reload.
func TestLive(t *testing.T) {
	s := newStage(t)
	client := s.connect(t)
	v := newViewer(t, 1000, 700)
	v.open(s.web.URL + "/")
	// The page's own clock, which is this machine's, records when a name was there first.
	ask[bool](v, `(() => {
		window.seen = {};
		const look = () => { for (const b of document.querySelectorAll('.holders b')) window.seen[b.textContent] ??= Date.now(); };
		new MutationObserver(look).observe(document.body, {subtree: true, childList: true, characterData: true});
		return true;
	})()`)
	const turns = 15
	var late []time.Duration
	for i := range turns {
		name := fmt.Sprint("turn-", i)
		began := time.Now()
		lock, err := mutex.New(client, "/live", mutex.WithNodeData([]byte(name))).Acquire(t.Context())
		require.NoError(t, err)
		v.until(name+" is seen", "window.seen["+quoted(name)+"]")
		seen := time.UnixMilli(ask[int64](v, "window.seen["+quoted(name)+"]"))
		late = append(late, max(seen.Sub(began), 0))
		require.NoError(t, lock.Release(t.Context()))
	}
	soon := 0
	for _, d := range late {
		if d < time.Second {
			soon++
		}
	}
	kit.Figure(t, "live: seen after %v", late)
	assert.Greater(t, soon, turns/2, "most changes are seen within a second, on a busy machine, too: %v", late)
	v.has(fmt.Sprintf("Last %d grants seen", turns), "free for")
	v.fine()
}

// Ten thousand waiters are counted, not drawn, and the page stays responsive.
func TestTenThousandWaiters(t *testing.T) {
	s := newStage(t)
	require.NoError(t, s.server.Create("/locks", nil))
	require.NoError(t, s.server.Create("/locks/crowded", nil))
	name := func(i int) string {
		return fmt.Sprintf("/locks/crowded/_c_d93c3b7d-b92f-87f8-97dd-71e653f1e8cf-lock-%010d", i)
	}
	for i := range 10_001 {
		s.stand(t, name(i), fmt.Sprint("worker-", i))
	}
	v := newViewer(t, 1280, 900)
	v.dark(false)
	v.open(s.web.URL + "/")
	v.has("10,000", "worker-0", "waits 3", "9,997 more wait")
	v.click(".rest summary")
	v.has("worker-100", "and 9,900 more, which are not listed")
	assert.Less(t, ask[int](v, "document.querySelectorAll('*').length"), 2500, "elements of the page")
	v.shoot("10000-waiters")
	require.NoError(t, s.server.Delete(name(0)))
	v.until("the next one holds", "document.querySelector('.holders b').textContent === 'worker-1'")
	v.has("9,999 wait")
	v.fine()
}

// Names and data that would do harm in a page are shown as text.
func TestHostileData(t *testing.T) {
	s := newStage(t)
	script := "<script>window.owned = 1</script>"
	image := "<img src=x onerror='window.owned = 1'>"
	dir := "/locks/" + strings.ReplaceAll(script+image, "/", "|")
	for _, path := range []string{"/locks", dir} {
		require.NoError(t, s.server.Create(path, nil))
	}
	for i, data := range []string{script, image, "\x1b[2J\x00\r\n\ndata: {\"whole\":true}\n\n", strings.Repeat("x", 1<<20-500),
		"\xff\xfe\xfd", "\u202egnp.exe\u2066", "javascript:window.owned=1", "${window.owned = 1}"} {
		s.stand(t, fmt.Sprintf("%s/_c_d93c3b7d-b92f-87f8-97dd-71e653f1e8cf-%s\u202e-lock-%010d", dir, strings.ReplaceAll(image, "/", "|"), i), data)
	}
	v := newViewer(t, 900, 900)
	v.open(s.web.URL + "/")
	v.click(".rest summary")
	v.click(".past summary")
	v.has(script, image, `\x1b[2J\x00\r\n\ndata`, "1,048,076 bytes of data", `\xff\xfe\xfd`, `\u202egnp.exe\u2066`)
	v.click(".holders .link") // a filter by the session
	v.until("the filter is set", "document.querySelector('#filter').value.startsWith('0x')")
	assert.Equal(t, "undefined", ask[string](v, "typeof window.owned"))
	assert.Equal(t, 1, ask[int](v, "document.scripts.length"), "the page's own")
	assert.Zero(t, ask[int](v, "document.images.length + document.querySelectorAll('iframe, object, embed, b b, i').length"))
	v.shoot("hostile")
	v.fine()
}

// The browser itself refuses the actions that the page's headers forbid.
func TestHeaders(t *testing.T) {
	s := newStage(t)
	v := newViewer(t, 900, 700)
	v.open(s.web.URL + "/")
	headers := ask[string](v, "fetch('').then(r => JSON.stringify(Object.fromEntries(r.headers)))", chromedp.EvalAwaitPromise)
	var got map[string]string
	require.NoError(t, json.Unmarshal([]byte(headers), &got))
	assert.Contains(t, got["content-security-policy"], "default-src 'none'")
	assert.Contains(t, got["content-security-policy"], "frame-ancestors 'none'")
	assert.Equal(t, "nosniff", got["x-content-type-options"])
	assert.Equal(t, "DENY", got["x-frame-options"])
	assert.Equal(t, "no-referrer", got["referrer-policy"])
	v.fine()
	refused := ask[string](v, `(() => { try { document.body.innerHTML = '<b>x</b>'; return 'done'; } catch (e) { return e.name; } })()`)
	assert.Equal(t, "TypeError", refused, "no text becomes markup")
	assert.Equal(t, "refused", ask[string](v, `new Promise(done => {
		const i = new Image(); i.onload = () => done('loaded'); i.onerror = () => done('refused'); i.src = 'http://127.0.0.1:1/x.png'; })`, chromedp.EvalAwaitPromise))

	// A page of another site can neither show it in a frame nor read its stream.
	other := newViewer(t, 900, 700)
	other.do(chromedp.Navigate(s.framing(t)))
	other.until("the frame has been tried", "window.tried")
	assert.NotContains(t, other.text(), "Curator")
	assert.Equal(t, "refused", ask[string](other, "fetch("+quoted(s.web.URL+"/events")+").then(() => 'read', () => 'refused')", chromedp.EvalAwaitPromise))
	v.shoot("headers")
}

// Without a mouse and without a screen: the keyboard reaches every element, and every element has a name.
func TestKeyboard(t *testing.T) {
	s := newStage(t, inspecthttp.WithDelete())
	shop(t, s)
	v := newViewer(t, 1000, 900)
	v.open(s.web.URL + "/")
	v.has("/shop/locks/stock/berlin")
	v.press(kb.Tab)
	v.until("the first stop leads to the lines", "document.activeElement.textContent === 'Skip to the lines'")
	v.press("/")
	v.until("the filter has the keys", "document.activeElement.id === 'filter'")
	v.press("printers")
	v.until("one line is left", "document.querySelectorAll('.line').length === 1")
	v.has("1 of 6 lines")

	tree := command(v, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	roles := map[string]int{}
	for _, node := range tree.Nodes {
		role := valueOf(node.Role)
		switch role {
		case "button", "link", "searchbox", "textbox", "combobox", "checkbox", "heading", "img":
			roles[role]++
			assert.NotEmpty(t, valueOf(node.Name), "a %s without a name", role)
		}
	}
	assert.NotZero(t, roles["button"])
	assert.NotZero(t, roles["searchbox"])
	assert.NotZero(t, roles["combobox"])
	assert.NotZero(t, roles["checkbox"])

	// Before a deletion the page asks: Escape means no, and so does an immediate Enter.
	before := s.children("/shop/printers/leases")
	for _, no := range []string{kb.Escape, kb.Enter} {
		v.click(".part .danger")
		v.until("the page asks", "document.querySelector('#ask').open")
		v.shoot("question")
		v.press(no)
		v.until("the question is gone", "!document.querySelector('#ask').open")
		assert.Equal(t, before, s.children("/shop/printers/leases"))
	}
	v.click(".part .danger")
	v.until("the page asks", "document.querySelector('#ask').open")
	v.press(kb.Tab)
	v.until("the other answer has the keys", "document.activeElement.value === 'yes'")
	v.press(kb.Enter)
	eventually(t, "the node is deleted", func() bool { return s.children("/shop/printers/leases") == before-1 })
	v.until("it is said", "document.querySelector('#live').textContent === 'The node was deleted.'")
	v.fine()
}

// A page whose service is gone reports that, and shows its last state.
func TestWithoutItsService(t *testing.T) {
	s := newStage(t)
	s.stand(t, "/_c_d93c3b7d-b92f-87f8-97dd-71e653f1e8cf-lock-0000000000", "the last")
	v := newViewer(t, 900, 700)
	v.open(s.web.URL + "/")
	v.has("the last", "live")
	s.page.Close()
	v.has("page disconnected", "The state below is from then", "the last")
	v.shoot("disconnected")
}

func valueOf(v *accessibility.Value) string {
	if v == nil {
		return ""
	}
	return strings.Trim(string(v.Value), `"`)
}

// framing returns the address of another site, which tries to show the page in a frame.
func (s *stage) framing(t *testing.T) string {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<iframe src="%s/" onload="window.tried = true"></iframe>`, s.web.URL)
	}))
	t.Cleanup(other.Close)
	return other.URL
}
