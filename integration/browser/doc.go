// Package browser looks at the page of inspect/http with a real browser: Debian's Chromium without a window, driven
// by chromedp. ../setup installs it; CHROMIUM names another one. Screenshots are written to CURATOR_TEST_ARTIFACTS,
// or else to a new directory below the system's temporary one; each test names its pictures.
package browser
