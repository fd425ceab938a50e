/**
 * Which of several hosts the connections of a pool go to. One is chosen by a connection that is made for it
 * (hosts.ts), and kept until it is in doubt: a connection to it could not be made, broke, or met a server
 * that takes no writes. Then the next caller chooses anew, once for all who wait; the host that was used last
 * is asked first, so that an old primary that comes back does not draw connections away from the new one.
 * Connections that lead elsewhere than the present choice are given up when their turn comes.
 */
import type pg from 'pg'
import type { Host, Hosts } from './hosts.ts'
import { connectToOne, cut } from './hosts.ts'

export interface HostChoice {
  /** Where new connections go. */
  readonly host: Host
  /** Says where a connection leads. */
  readonly made: (client: pg.Client, host: Host) => void
  /** Something is wrong with the host of this connection. */
  readonly doubt: (client: object) => void
  /** A connection of the pool to the present host; chooses first where that is in doubt. */
  readonly take: (pool: pg.Pool) => Promise<pg.PoolClient>
}

export function createHostChoice(
  hosts: Hosts,
  settings: pg.ClientConfig,
  onMoved: ((place: string) => void) | undefined,
): HostChoice {
  const [first] = hosts.all
  if (first === undefined) throw new Error('a choice of hosts needs one')
  let present: Host | undefined
  let last = first
  let choosing: Promise<void> | undefined
  const leads = new WeakMap<object, Host>()

  async function choose(): Promise<void> {
    const all = [last, ...hosts.all.filter((each) => each !== last)]
    const { client, host } = await connectToOne({ ...hosts, all }, settings)
    cut(client)
    present = host
    if (host === last) return
    last = host
    onMoved?.(host.place)
  }

  return {
    get host() {
      return present ?? last
    },
    made: (client, host) => void leads.set(client, host),
    doubt(client) {
      if (leads.get(client) === last) present = undefined
    },
    async take(pool) {
      for (;;) {
        if (present === undefined) {
          choosing ??= choose().finally(() => (choosing = undefined))
          await choosing
        }
        const client = await pool.connect().catch((error: unknown) => {
          // that all of its connections are in use says nothing of the host
          if (!(error instanceof Error && error.message.startsWith('timeout exceeded'))) present = undefined
          throw error
        })
        if (leads.get(client) === last) return client
        client.release(true)
      }
    },
  }
}
