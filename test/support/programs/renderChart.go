// Renders a Helm chart as `helm template mirror CHART --values FILE` does, with the libraries that Helm uses: Go's templates
// and the functions of sprig. For machines without Helm: Debian has these libraries, but not Helm.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type object = map[string]interface{}

func main() {
	chart, values, given := os.Args[1], object{}, object{}
	read(filepath.Join(chart, "values.yaml"), &values)
	read(os.Args[2], &given)
	sprig.TxtFuncMap()["mergeOverwrite"].(func(object, ...object) interface{})(values, given)
	about := struct{ Name, Version, AppVersion string }{}
	read(filepath.Join(chart, "Chart.yaml"), &about)
	release := object{"Name": "mirror", "Namespace": "default", "Service": "Helm"}
	render(filepath.Join(chart, "templates"), object{"Values": values, "Chart": about, "Release": release})
}

func render(folder string, data object) {
	all := template.New("chart").Option("missingkey=zero")
	functions := sprig.TxtFuncMap()
	functions["toYaml"] = func(value interface{}) (string, error) {
		text, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(text), "\n"), err
	}
	functions["toJson"] = func(value interface{}) (string, error) {
		text, err := json.Marshal(value)
		return string(text), err
	}
	functions["include"] = func(name string, data interface{}) (string, error) {
		var text strings.Builder
		err := all.ExecuteTemplate(&text, name, data)
		return text.String(), err
	}
	all.Funcs(functions)
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	check(err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(err)
		_, err = all.New(file).Parse(string(text))
		check(err)
	}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), "_") {
			continue
		}
		var text strings.Builder
		check(all.ExecuteTemplate(&text, file, data))
		fmt.Printf("---\n# Source: %s\n%s\n", filepath.Base(file), strings.ReplaceAll(text.String(), "<no value>", ""))
	}
}

func read(file string, into interface{}) {
	text, err := os.ReadFile(file)
	check(err)
	check(yaml.Unmarshal(text, into))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
