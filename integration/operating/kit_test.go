package operating

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// read returns a file of docs.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", name))
	require.NoError(t, err)
	return string(text)
}

// known reports whether any series has the label.
func known(series map[string]labelSet, label string) bool {
	for _, has := range series {
		if has[label] {
			return true
		}
	}
	return false
}

func TestDashboard(t *testing.T) {
	series := exported(t)
	var dashboard struct {
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
		Panels []struct {
			ID          int
			Title, Type string
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(read(t, "operating/dashboard.json")), &dashboard))
	variables := []string{"$__rate_interval", "5m"}
	for _, v := range dashboard.Templating.List {
		variables = append(variables, "$"+v.Name, ".*")
		if v.Type == "query" {
			assert.Equal(t, "label_values(curator_connected, "+v.Name+")", v.Definition)
			assert.True(t, series["curator_connected"][v.Name], v.Name)
		}
	}
	shown, ids := map[string]bool{}, map[int]string{}
	label := regexp.MustCompile(`{{(\w+)}}`)
	for _, p := range dashboard.Panels {
		assert.Empty(t, ids[p.ID], "two panels %d", p.ID)
		ids[p.ID] = p.Title
		assert.LessOrEqual(t, p.GridPos.X+p.GridPos.W, 24, p.Title)
		assert.Equal(t, p.Type == "row", len(p.Targets) == 0, p.Title)
		for _, target := range p.Targets {
			query := strings.NewReplacer(variables...).Replace(target.Expr)
			assert.NotContains(t, query, "$", p.Title)
			assert.Empty(t, check(series, query), "%s: %s", p.Title, query)
			for _, l := range label.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.True(t, known(series, l[1]), "%s: no label %s", p.Title, l[1])
			}
			for name := range series {
				shown[name] = shown[name] || strings.Contains(query, name)
			}
		}
	}
	for name := range series {
		if !strings.HasSuffix(name, "_sum") && !strings.HasSuffix(name, "_count") {
			assert.True(t, shown[name], "no panel shows %s", name)
		}
	}
}

// rule is an alert in the file of rules.
type rule struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []rule
		}
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, "operating/alerts.yaml")), &file))
	require.Len(t, file.Groups, 1)
	return file.Groups[0].Rules
}

func TestAlerts(t *testing.T) {
	series, tests := exported(t), read(t, "operating/alerts_test.yaml")
	sections := regexp.MustCompile(`(?m)^## (Curator\w+)$`).FindAllStringSubmatch(read(t, "operating/runbook.md"), -1)
	var named, described []string
	for _, s := range sections {
		described = append(described, s[1])
	}
	series["ALERTS"] = labelSet{"alertname": true, "job": true, "path": true} // Prometheus's own series, which rules may use
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	other := regexp.MustCompile(`alertname="(\w+)"`)
	var asked []string
	for _, r := range rules(t) {
		for _, name := range other.FindAllStringSubmatch(r.Expr, -1) {
			asked = append(asked, name[1])
		}
		named = append(named, r.Alert)
		assert.Empty(t, check(series, r.Expr), r.Alert)
		assert.Contains(t, []string{"page", "ticket"}, r.Labels["severity"], r.Alert)
		assert.True(t, strings.HasSuffix(r.Annotations["runbook_url"], "/docs/operating/runbook.md#"+strings.ToLower(r.Alert)), r.Alert)
		for _, what := range []string{"summary", "description"} {
			assert.NotEmpty(t, r.Annotations[what], r.Alert)
			for _, l := range label.FindAllStringSubmatch(r.Annotations[what], -1) {
				assert.True(t, known(series, l[1]), "%s: no label %s", r.Alert, l[1])
			}
		}
		assert.Contains(t, tests, `ALERTS{alertname="`+r.Alert+`"`, "no test of promtool's lets it fire")
	}
	assert.Subset(t, named, asked, "alerts that other alerts ask for are there")
	assert.Equal(t, named, described, "the runbook has a section for each alert, in the order of the rules")
}

// Every message that needs an operator's attention has a row with the action.
func TestLogTable(t *testing.T) {
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (INFO|WARN|ERROR) \\| (.*?)\\| (.*)\\|$")
	rows := row.FindAllStringSubmatch(read(t, "operating/log.md"), -1)
	assert.Greater(t, len(rows), 30)
	for _, m := range rows {
		if m[2] != "INFO" || strings.Contains(m[3], "WARN with") {
			assert.NotEmpty(t, strings.TrimSpace(m[4]), m[1])
		}
	}
}
