package main

import "github.com/spf13/cobra"

func (p *program) completionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "Print a script that teaches a shell to complete our commands",
		Long:      "Print a script that teaches a shell to complete our commands. For this session of bash:\n\n  source <(penstock completion bash)",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Args:      cobra.MatchAll(wants(1, 1), cobra.OnlyValidArgs),
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		root := cmd.Root()
		switch args[0] {
		case "bash":
			return root.GenBashCompletionV2(p.out, true)
		case "zsh":
			return root.GenZshCompletion(p.out)
		case "fish":
			return root.GenFishCompletion(p.out, true)
		}
		return root.GenPowerShellCompletionWithDesc(p.out)
	}
	return cmd
}
