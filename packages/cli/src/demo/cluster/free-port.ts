/**
 * A port of this machine that nobody listens on, for servers of the demo that cannot choose one. Somebody
 * else may take it first; then the server does not start.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
