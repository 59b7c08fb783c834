// Package cli is the storey of the command line, one file for each subcommand; only the program and what generates its documentation import it.
//
// Results go to standard output, logs and errors to standard error. The exit status is 0 for success, 2 for wrong usage and 1 for any other failure.
package cli
