/**
 * Endpoints of the server itself: what it runs and computes times with, for any key; and the whole
 * installation and replans of zones, which are of all tenants, for the platform.
 */
import { clusterView } from '../cluster-views.ts'
import type { Endpoints } from '../endpoint.ts'
import { pageById } from '../page.ts'
import { replanView } from '../views.ts'

export const serverEndpoints: Pick<Endpoints, 'serverGet' | 'clusterGet' | 'replanList'> = {
  serverGet: {
    as: 'tenant',
    async answer({ tx, tools }) {
      const { zones, version } = tools
      const [nowMs, newestOnRecord] = [await tx.nowMs(), await tx.replans.newestZoneData()]
      const zoneData = { version: zones.dataVersion, source: zones.source, path: zones.path, newestOnRecord }
      return { body: { version, time: new Date(nowMs).toISOString(), zoneData } }
    },
  },
  clusterGet: {
    as: 'platform',
    answer: async ({ tx }) => ({ body: clusterView(await tx.cluster.read()) }),
  },
  replanList: {
    as: 'platform',
    async answer({ tx, query, credential }) {
      const scope = { list: 'replans', tenantId: credential.tenantId, filter: {} }
      return { body: await pageById(scope, query, (page) => tx.replans.list(page), replanView) }
    },
  },
}
