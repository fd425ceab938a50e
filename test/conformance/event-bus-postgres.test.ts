// Events by way of Postgres, held to the suite that every bus must pass.
import { createPostgresEventBus } from '../../packages/server/src/postgres/event-bus.ts'
import { createPostgresWorkflowResolving } from '../../packages/server/src/postgres/workflow-resolving.ts'
import { describeEventBus } from './event-bus.ts'

describeEventBus('Postgres', async ({ fixture, hints }) => {
  const open = () =>
    createPostgresEventBus({ resolving: createPostgresWorkflowResolving(fixture.database.open()), hints })
  return { bus: open(), another: open, lose: async () => {}, drop: async () => {} }
})
