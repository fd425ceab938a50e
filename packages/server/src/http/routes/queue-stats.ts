/**
 * What a queue needs of workers. A tenant is told of its own runs; who may see the platform, on request, of
 * all runs. A key for workers is told of the queues that it may serve.
 */
import type { QueueStats } from '@belfry/contract'
import { BelfryError } from '@belfry/contract'
import type { Credential } from '../../ports/credentials.ts'
import type { Asked, Endpoints } from '../endpoint.ts'
import { demandView } from '../cluster-views.ts'
import { invalidRequest } from '../validation.ts'

export const queueStatsEndpoints: Pick<Endpoints, 'queueStats'> = {
  queueStats: {
    as: 'chosen',
    choose(asked) {
      checkBounds(asked.query)
      const { queue } = asked.params
      const goal = asked.query
      if (goal.tenants === 'all') {
        checkPlatform(asked.credential)
        return {
          as: 'platform',
          async answer({ tx }) {
            const servers = await tx.cluster.serverDemand(queue)
            const time = new Date(servers.nowMs).toISOString()
            const body: QueueStats = {
              queue,
              time,
              tenants: 'all',
              servers: demandView(servers, goal),
              functions: null,
            }
            return { body }
          },
        }
      }
      checkOwn(asked.credential, queue)
      return {
        as: 'tenant',
        async answer({ tx }) {
          const [servers, functions] = [await tx.demand.servers(queue), await tx.demand.functions(queue)]
          const body: QueueStats = {
            queue,
            time: new Date(servers.nowMs).toISOString(),
            tenants: 'own',
            servers: demandView(servers, goal),
            functions: demandView(functions, goal),
          }
          return { body }
        },
      }
    },
  },
}

function checkBounds({ minWorkers, maxWorkers }: Asked<'queueStats'>['query']): void {
  if (minWorkers <= maxWorkers) return
  const message = `is more than maxWorkers (${maxWorkers}); make it smaller, or that larger`
  throw invalidRequest([{ pointer: '/query/minWorkers', message }])
}

function checkPlatform({ permissions }: Credential): void {
  if (permissions.has('cluster.read')) return
  const message =
    'The runs of all tenants take a key with the scope "platform"; leave "tenants" out to count your own.'
  throw new BelfryError('forbidden', message)
}

function checkOwn({ permissions, queues }: Credential, queue: string): void {
  if (permissions.has('queue.read')) return
  if (!permissions.has('worker.serve')) {
    const message =
      'The runs of a tenant take the scope "read" or "worker"; with "platform" ask for tenants=all.'
    throw new BelfryError('forbidden', message)
  }
  if (queues === null || queues.includes(queue)) return
  const message = `This key may serve the queues ${queues.join(', ')}, and not "${queue}".`
  throw new BelfryError('forbidden', message)
}
