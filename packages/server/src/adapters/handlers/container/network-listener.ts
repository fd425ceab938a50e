/**
 * Runs as a process of its own, inside the network of a container (network-door.ts starts it there by
 * nsenter): opens one port on its loopback, hands that to the worker, and ends. A socket stays in the
 * network that it was made in, so the worker, which is in another one, can then answer there.
 */
import { createServer } from 'node:net'

const port = Number(process.argv[2])
const server = createServer()

server.on('error', (error: NodeJS.ErrnoException) => {
  process.send?.({ fault: error.code ?? error.message }, () => process.exit(1))
})
server.listen({ host: '127.0.0.1', port, backlog: 64 }, () => {
  process.send?.({ listening: port }, server, {}, () => process.disconnect())
})
process.on('disconnect', () => process.exit(0))
