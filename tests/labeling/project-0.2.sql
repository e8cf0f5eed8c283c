BEGIN TRANSACTION;
CREATE TABLE acts (
	seq INTEGER NOT NULL, 
	id TEXT NOT NULL, 
	"key" VARCHAR(32) NOT NULL, 
	person TEXT NOT NULL, 
	act VARCHAR(10) NOT NULL, 
	value TEXT, 
	seconds FLOAT, 
	at FLOAT NOT NULL, 
	supersedes INTEGER, 
	PRIMARY KEY (seq), 
	UNIQUE (id), 
	FOREIGN KEY("key") REFERENCES examples ("key"), 
	FOREIGN KEY(supersedes) REFERENCES acts (seq)
);
INSERT INTO "acts" VALUES(1,'ann-0-0000','6ec7536c41925cbef2c9350bb36ebcd0','ann','answer','1',3.5,1700000052.5,NULL);
INSERT INTO "acts" VALUES(2,'ann-1-0000','db7e134650e0a6f675d95aad7bf597bc','ann','answer','0',3.5,1700000075.0,NULL);
INSERT INTO "acts" VALUES(3,'ann-2-0000','e05e9d8323e7079a5d5a967be77e2143','ann','answer','0',3.5,1700000097.5,NULL);
INSERT INTO "acts" VALUES(4,'dcab244fd4464dfaa2f84e7913e00d8f','e05e9d8323e7079a5d5a967be77e2143','ann','withdrawal',NULL,NULL,1700000105.0,3);
INSERT INTO "acts" VALUES(5,'ann-2-0001','e05e9d8323e7079a5d5a967be77e2143','ann','answer','2',2.0,1700000120.0,4);
INSERT INTO "acts" VALUES(6,'ann-3-0000','6cd50eaa8f289caddedba1b799686040','ann','answer','0',3.5,1700000142.5,NULL);
INSERT INTO "acts" VALUES(7,'ann-4-0000','6d3ce69a7474726495b3e1af43b8a857','ann','answer','0',3.5,1700000165.0,NULL);
INSERT INTO "acts" VALUES(8,'bob-0-0000','0b5105744fa828787f1f0252532ba3ad','bob','answer','1',3.5,1700000187.5,NULL);
INSERT INTO "acts" VALUES(9,'bob-1-0000','dea47ce0ae2a31baee0e37e86d2dd631','bob','answer','1',3.5,1700000210.0,NULL);
INSERT INTO "acts" VALUES(10,'bob-2-0000','40da60c20a62848cfd4a5b6e2c45841c','bob','answer','0',3.5,1700000232.5,NULL);
INSERT INTO "acts" VALUES(11,'9bf93ea8ac3343239a5ea8d961c8aad7','40da60c20a62848cfd4a5b6e2c45841c','bob','withdrawal',NULL,NULL,1700000240.0,10);
INSERT INTO "acts" VALUES(12,'bob-2-0001','40da60c20a62848cfd4a5b6e2c45841c','bob','answer','2',2.0,1700000255.0,11);
INSERT INTO "acts" VALUES(13,'bc457c36931e4c57aed8b5404ebfd11e','388ce6f2d638ede012ef01668ee4a16a','bob','skip',NULL,NULL,1700000277.5,NULL);
INSERT INTO "acts" VALUES(14,'bob-4-0000','eda876e6333c807767d79048067faeb3','bob','answer','1',3.5,1700000300.0,NULL);
INSERT INTO "acts" VALUES(15,'f3341658e0ec4d5badf7e24e2bc9e464','6ec7536c41925cbef2c9350bb36ebcd0','ann','correction','1',NULL,1700000307.5,1);
CREATE TABLE class_names (
	name TEXT NOT NULL, 
	number INTEGER NOT NULL, 
	PRIMARY KEY (name), 
	FOREIGN KEY(number) REFERENCES classes (number)
);
INSERT INTO "class_names" VALUES('hardware',0);
INSERT INTO "class_names" VALUES('money',1);
INSERT INTO "class_names" VALUES('other',2);
INSERT INTO "class_names" VALUES('billing',1);
INSERT INTO "class_names" VALUES('bills',3);
CREATE TABLE classes (
	number INTEGER NOT NULL, 
	name TEXT NOT NULL, 
	merged_into INTEGER, 
	PRIMARY KEY (number), 
	FOREIGN KEY(merged_into) REFERENCES classes (number)
);
INSERT INTO "classes" VALUES(0,'hardware',NULL);
INSERT INTO "classes" VALUES(1,'billing',NULL);
INSERT INTO "classes" VALUES(2,'other',NULL);
INSERT INTO "classes" VALUES(3,'bills',1);
CREATE TABLE examples (
	"key" VARCHAR(32) NOT NULL, 
	name TEXT NOT NULL, 
	here BOOLEAN NOT NULL, 
	copies INTEGER NOT NULL, 
	purpose VARCHAR(8), 
	wanted BOOLEAN DEFAULT 0 NOT NULL, 
	PRIMARY KEY ("key")
);
INSERT INTO "examples" VALUES('6ec7536c41925cbef2c9350bb36ebcd0','11',1,1,'pick',0);
INSERT INTO "examples" VALUES('db7e134650e0a6f675d95aad7bf597bc','4',1,1,'pick',0);
INSERT INTO "examples" VALUES('e05e9d8323e7079a5d5a967be77e2143','6',1,1,'pick',0);
INSERT INTO "examples" VALUES('6cd50eaa8f289caddedba1b799686040','8',1,1,'pick',0);
INSERT INTO "examples" VALUES('6d3ce69a7474726495b3e1af43b8a857','2',1,1,'pick',0);
INSERT INTO "examples" VALUES('0b5105744fa828787f1f0252532ba3ad','5',1,1,'pick',0);
INSERT INTO "examples" VALUES('dea47ce0ae2a31baee0e37e86d2dd631','1',1,2,'pick',0);
INSERT INTO "examples" VALUES('40da60c20a62848cfd4a5b6e2c45841c','10',1,2,'pick',0);
INSERT INTO "examples" VALUES('388ce6f2d638ede012ef01668ee4a16a','0',1,1,'pick',0);
INSERT INTO "examples" VALUES('eda876e6333c807767d79048067faeb3','9',1,1,'pick',0);
INSERT INTO "examples" VALUES('0694b92339c2f894b8ed36094cf174a5','7',1,1,NULL,0);
INSERT INTO "examples" VALUES('3243e32102d3550506f7cbb13452c12d','3',1,2,NULL,0);
CREATE TABLE facts (
	name TEXT NOT NULL, 
	value TEXT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "facts" VALUES('schema','1');
INSERT INTO "facts" VALUES('answers','"one"');
INSERT INTO "facts" VALUES('overlap','0.5');
INSERT INTO "facts" VALUES('settings','{"strategy": "default", "batch": 4, "audit": 0.15, "goal": "90%", "overlap": 0.5, "seed": 3, "encoder": "words", "model": null, "fit": null, "known": null}');
INSERT INTO "facts" VALUES('indexed','true');
INSERT INTO "facts" VALUES('round','1');
INSERT INTO "facts" VALUES('model','1');
CREATE TABLE leases (
	"key" VARCHAR(32) NOT NULL, 
	person TEXT NOT NULL, 
	place INTEGER NOT NULL, 
	until FLOAT NOT NULL, 
	PRIMARY KEY ("key", person), 
	FOREIGN KEY("key") REFERENCES examples ("key")
);
CREATE TABLE places (
	name TEXT NOT NULL, 
	"key" VARCHAR(32), 
	stamp TEXT NOT NULL, 
	problem TEXT, 
	PRIMARY KEY (name), 
	FOREIGN KEY("key") REFERENCES examples ("key")
);
INSERT INTO "places" VALUES('11','6ec7536c41925cbef2c9350bb36ebcd0','6ec7536c41925cbef2c9350bb36ebcd0',NULL);
INSERT INTO "places" VALUES('4','db7e134650e0a6f675d95aad7bf597bc','db7e134650e0a6f675d95aad7bf597bc',NULL);
INSERT INTO "places" VALUES('6','e05e9d8323e7079a5d5a967be77e2143','e05e9d8323e7079a5d5a967be77e2143',NULL);
INSERT INTO "places" VALUES('8','6cd50eaa8f289caddedba1b799686040','6cd50eaa8f289caddedba1b799686040',NULL);
INSERT INTO "places" VALUES('2','6d3ce69a7474726495b3e1af43b8a857','6d3ce69a7474726495b3e1af43b8a857',NULL);
INSERT INTO "places" VALUES('5','0b5105744fa828787f1f0252532ba3ad','0b5105744fa828787f1f0252532ba3ad',NULL);
INSERT INTO "places" VALUES('1','dea47ce0ae2a31baee0e37e86d2dd631','dea47ce0ae2a31baee0e37e86d2dd631',NULL);
INSERT INTO "places" VALUES('10','40da60c20a62848cfd4a5b6e2c45841c','40da60c20a62848cfd4a5b6e2c45841c',NULL);
INSERT INTO "places" VALUES('0','388ce6f2d638ede012ef01668ee4a16a','388ce6f2d638ede012ef01668ee4a16a',NULL);
INSERT INTO "places" VALUES('9','eda876e6333c807767d79048067faeb3','eda876e6333c807767d79048067faeb3',NULL);
INSERT INTO "places" VALUES('7','0694b92339c2f894b8ed36094cf174a5','0694b92339c2f894b8ed36094cf174a5',NULL);
INSERT INTO "places" VALUES('3','3243e32102d3550506f7cbb13452c12d','3243e32102d3550506f7cbb13452c12d',NULL);
CREATE TABLE queue (
	round INTEGER NOT NULL, 
	rank INTEGER NOT NULL, 
	"key" VARCHAR(32) NOT NULL, 
	purpose VARCHAR(8) NOT NULL, 
	PRIMARY KEY (round, rank), 
	FOREIGN KEY("key") REFERENCES examples ("key")
);
INSERT INTO "queue" VALUES(0,0,'6ec7536c41925cbef2c9350bb36ebcd0','pick');
INSERT INTO "queue" VALUES(0,1,'db7e134650e0a6f675d95aad7bf597bc','pick');
INSERT INTO "queue" VALUES(0,2,'e05e9d8323e7079a5d5a967be77e2143','pick');
INSERT INTO "queue" VALUES(0,3,'6cd50eaa8f289caddedba1b799686040','pick');
INSERT INTO "queue" VALUES(0,4,'6d3ce69a7474726495b3e1af43b8a857','pick');
INSERT INTO "queue" VALUES(0,5,'0b5105744fa828787f1f0252532ba3ad','pick');
INSERT INTO "queue" VALUES(0,6,'dea47ce0ae2a31baee0e37e86d2dd631','pick');
INSERT INTO "queue" VALUES(0,7,'40da60c20a62848cfd4a5b6e2c45841c','pick');
INSERT INTO "queue" VALUES(0,8,'388ce6f2d638ede012ef01668ee4a16a','pick');
INSERT INTO "queue" VALUES(0,9,'eda876e6333c807767d79048067faeb3','pick');
INSERT INTO "queue" VALUES(0,10,'0694b92339c2f894b8ed36094cf174a5','pick');
INSERT INTO "queue" VALUES(0,11,'3243e32102d3550506f7cbb13452c12d','pick');
INSERT INTO "queue" VALUES(1,0,'3243e32102d3550506f7cbb13452c12d','pick');
INSERT INTO "queue" VALUES(1,1,'0694b92339c2f894b8ed36094cf174a5','audit');
INSERT INTO "queue" VALUES(1,2,'0694b92339c2f894b8ed36094cf174a5','pick');
INSERT INTO "queue" VALUES(1,3,'3243e32102d3550506f7cbb13452c12d','audit');
CREATE TABLE rounds (
	round INTEGER NOT NULL, 
	at FLOAT NOT NULL, 
	summary TEXT NOT NULL, 
	PRIMARY KEY (round)
);
INSERT INTO "rounds" VALUES(1,1700000315.0,'{"act": 15, "answers": 9, "trained": 9, "names": ["hardware", "billing", "other"], "note": "", "model": true, "kappa": null, "classes": [0, 1, 2], "scale": null, "seconds": 3.11}');
CREATE TABLE standing (
	"key" VARCHAR(32) NOT NULL, 
	person TEXT NOT NULL, 
	seq INTEGER NOT NULL, 
	act VARCHAR(10) NOT NULL, 
	value TEXT, 
	PRIMARY KEY ("key", person), 
	FOREIGN KEY("key") REFERENCES examples ("key"), 
	FOREIGN KEY(seq) REFERENCES acts (seq)
);
INSERT INTO "standing" VALUES('6ec7536c41925cbef2c9350bb36ebcd0','ann',15,'correction','1');
INSERT INTO "standing" VALUES('db7e134650e0a6f675d95aad7bf597bc','ann',2,'answer','0');
INSERT INTO "standing" VALUES('e05e9d8323e7079a5d5a967be77e2143','ann',5,'answer','2');
INSERT INTO "standing" VALUES('6cd50eaa8f289caddedba1b799686040','ann',6,'answer','0');
INSERT INTO "standing" VALUES('6d3ce69a7474726495b3e1af43b8a857','ann',7,'answer','0');
INSERT INTO "standing" VALUES('0b5105744fa828787f1f0252532ba3ad','bob',8,'answer','1');
INSERT INTO "standing" VALUES('dea47ce0ae2a31baee0e37e86d2dd631','bob',9,'answer','1');
INSERT INTO "standing" VALUES('40da60c20a62848cfd4a5b6e2c45841c','bob',12,'answer','2');
INSERT INTO "standing" VALUES('388ce6f2d638ede012ef01668ee4a16a','bob',13,'skip',NULL);
INSERT INTO "standing" VALUES('eda876e6333c807767d79048067faeb3','bob',14,'answer','1');
CREATE INDEX examples_by_purpose ON examples (purpose, copies);
CREATE INDEX places_by_key ON places ("key");
CREATE INDEX queue_by_key ON queue ("key");
CREATE INDEX leases_by_person ON leases (person);
CREATE INDEX standing_by_person ON standing (person, seq);
COMMIT;
