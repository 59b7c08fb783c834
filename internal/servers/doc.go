// Package servers is the storey of inference servers and the connections to them: pools, the life and health of a connection, discovery.
// Sessions and what is above them import it. Nothing in it knows a client.
package servers
