// Package manifests checks docs/operating/kubernetes.yaml with the types of Kubernetes' API, which take long to compile.
package manifests

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// The manifests decode into the API's own types without an unknown or repeated field, and the things that they name
// exist.
func TestManifests(t *testing.T) {
	text, err := os.ReadFile("../../../docs/operating/kubernetes.yaml")
	require.NoError(t, err)
	var service apps.Deployment
	var budgets []policy.PodDisruptionBudget
	for _, document := range strings.Split(string(text), "\n---\n") {
		var kind meta.TypeMeta
		require.NoError(t, yaml.Unmarshal([]byte(document), &kind))
		switch kind.APIVersion + " " + kind.Kind {
		case "apps/v1 Deployment":
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &service))
		case "policy/v1 PodDisruptionBudget":
			var budget policy.PodDisruptionBudget
			require.NoError(t, yaml.UnmarshalStrict([]byte(document), &budget))
			budgets = append(budgets, budget)
		default:
			assert.Fail(t, "an unexpected kind", "%v", kind)
		}
	}
	selects := func(s *meta.LabelSelector) bool {
		selector, err := meta.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		return !selector.Empty() && selector.Matches(labels.Set(service.Spec.Template.Labels))
	}
	pod := service.Spec.Template.Spec
	assert.True(t, selects(service.Spec.Selector))
	require.Len(t, budgets, 2)
	assert.True(t, selects(budgets[0].Spec.Selector))
	assert.True(t, selects(pod.TopologySpreadConstraints[0].LabelSelector))
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for name, probe := range map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe} {
		require.NotNil(t, probe, name)
		assert.True(t, ports[probe.HTTPGet.Port.StrVal], name)
		assert.Equal(t, name == "liveness", probe.HTTPGet.Path == "/livez", name)
	}
	assert.Less(t, c.Lifecycle.PreStop.Sleep.Seconds+30, *pod.TerminationGracePeriodSeconds, "30 s for the work and Close")
	assert.True(t, c.Resources.Limits.Cpu().IsZero())
}
