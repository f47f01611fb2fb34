// Package browser looks at the page of inspect/http with a real browser: Debian's Chromium without a window,
// driven by chromedp. Pictures of what it sees go to CURATOR_TEST_ARTIFACTS. The tests have the build tag chromium,
// since they need it installed: go test -tags chromium ./browser
package browser
