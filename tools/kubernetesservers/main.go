// Servers of Kubernetes, as they are released, built from its Go module: for the tests of `make kubernetes`.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// The first argument says which.
func main() {
	servers := map[string]func() *cobra.Command{
		"kube-apiserver": apiserver.NewAPIServerCommand,
		"kube-scheduler": func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	}
	if len(os.Args) > 1 {
		if server, known := servers[os.Args[1]]; known {
			os.Args = os.Args[1:]
			os.Exit(cli.Run(server()))
		}
	}
	fmt.Fprintln(os.Stderr, "the first argument is kube-apiserver or kube-scheduler")
	os.Exit(2)
}
