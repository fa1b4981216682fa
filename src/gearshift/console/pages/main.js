// The entrance: the frame around the pages, and which path shows which page.
import { showBanner } from "./banner.js";
import { start } from "./live.js";
import { Navigation } from "./navigation.js";
import { Router } from "./router.js";
import { board } from "./board.js";
import { calendar } from "./calendar.js";
import { connectors } from "./connectors.js";
import { deadLetters } from "./dead-letters.js";
import { group } from "./group.js";
import { groups } from "./groups.js";
import { letters } from "./letters.js";
import { overview } from "./overview.js";
import { pipeline } from "./pipeline.js";
import { schema } from "./schema.js";
import { schemas } from "./schemas.js";
import { table } from "./table.js";
import { tables } from "./tables.js";
import { topic } from "./topic.js";
import { topics } from "./topics.js";

const node = (id) => document.getElementById(id);

showBanner(node("banner"));
const navigation = new Navigation(node("top"), node("nav"));
const router = new Router(node("main"), node("announcer"), [
  ["/", "Overview", overview],
  ["/pipelines/:pipeline", "Pipeline", pipeline],
  ["/topics", "Topics", topics],
  ["/topics/:topic", "Topic", topic],
  ["/groups", "Consumer groups", groups],
  ["/groups/:group", "Consumer group", group],
  ["/dead-letters", "Dead letters", deadLetters],
  ["/dead-letters/:topic", "Dead letters", letters],
  ["/schemas", "Schemas", schemas],
  ["/schemas/:subject", "Schema", schema],
  ["/connectors", "Connectors", connectors],
  ["/tables", "Tables", tables],
  ["/tables/:table", "Table", table],
  ["/calendar", "Calendar", calendar],
  ["/boards/:board", "Board", board],
]);
router.onShow = (pathname) => navigation.mark(pathname);
start();
router.start();
