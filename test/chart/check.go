// Reads the objects that the chart makes, in YAML, from standard input: each must fit the type of its API version strictly, without an
// unknown or doubled field. Prints the kinds, and ends with status 1 at the first object that does not fit.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A new object of each kind that the chart may make.
var kinds = map[string]func() any{
	"v1 ConfigMap":                            func() any { return &core.ConfigMap{} },
	"v1 Service":                              func() any { return &core.Service{} },
	"apps/v1 Deployment":                      func() any { return &apps.Deployment{} },
	"policy/v1 PodDisruptionBudget":           func() any { return &policy.PodDisruptionBudget{} },
	"monitoring.coreos.com/v1 ServiceMonitor": func() any { return &monitoring.ServiceMonitor{} },
	"monitoring.coreos.com/v1 PrometheusRule": func() any { return &monitoring.PrometheusRule{} },
}

func main() {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(os.Stdin))
	count := 0
	for {
		text, err := reader.Read()
		if err != nil {
			break
		}
		var head struct {
			APIVersion string                `json:"apiVersion"`
			Kind       string                `json:"kind"`
			Metadata   struct{ Name string } `json:"metadata"`
		}
		if err := yaml.Unmarshal(text, &head); err != nil {
			fail("not YAML: %v\n%s", err, text)
		}
		if head.Kind == "" && strings.TrimSpace(string(text)) == "" {
			continue
		}
		if head.Kind == "" {
			continue // comments only
		}
		object := kinds[head.APIVersion+" "+head.Kind]
		if object == nil {
			fail("an object of kind %q, version %q", head.Kind, head.APIVersion)
		}
		if err := yaml.UnmarshalStrict(text, object()); err != nil {
			fail("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		if len(head.Metadata.Name) > 63 {
			fail("%s: a name of %d characters: %s", head.Kind, len(head.Metadata.Name), head.Metadata.Name)
		}
		fmt.Println(head.Kind, head.Metadata.Name)
		count++
	}
	if count == 0 {
		fail("no objects")
	}
}

func fail(format string, words ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", words...)
	os.Exit(1)
}
